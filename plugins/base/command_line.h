// The programs' command lines share this, in the words of the Python ones (horovod/command_line.py): help with
// a short usage and examples first, and one line for what is wrong. For programs alone, which have CLI11.
#pragma once

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace roda {

struct Example {
  std::string line, about;
};

namespace command_line {

inline std::string painted(int stream, const std::string& text, const char* code) {
  const auto variable = [](const char* name) {
    return std::string(std::getenv(name) == nullptr ? "" : std::getenv(name));
  };
  if (isatty(stream) == 0 || !variable("NO_COLOR").empty() || variable("TERM") == "dumb") return text;
  return std::string("\033[") + code + "m" + text + "\033[0m";
}

inline std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

// Breaks a text into lines; each but the first begins with the indent.
inline std::string wrapped(const std::string& text, std::size_t indent, std::size_t width) {
  std::string result;
  std::size_t column = indent;
  std::istringstream words(text);
  for (std::string word; words >> word; column += word.size() + 1) {
    if (column > indent && column + word.size() > width) {
      result += "\n" + std::string(indent, ' ');
      column = indent;
    }
    result += (column > indent ? " " : "") + word;
  }
  return result;
}

class Formatter : public CLI::Formatter {
 public:
  explicit Formatter(std::vector<Example> examples) : examples_(std::move(examples)) {}

  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    std::size_t width = 0;
    for (const Example& example : examples_) width = std::max(width, example.line.size());
    std::string text =
        painted(1, "usage:", "1") + " " + name + " [OPTION]...\n\n" + painted(1, "examples:", "1") + "\n";
    for (const Example& example : examples_) text += "  " + padded(example.line, width) + "  " + example.about + "\n";
    return text + "\n" + app->get_description() + "\n" + make_groups(app, mode);
  }

  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override {
    std::string text = "\n" + painted(1, (group == "Options" ? "options" : group) + ":", "1") + "\n";
    for (const CLI::Option* option : options) text += make_option(option, is_positional);
    return text;
  }

  std::string make_option(const CLI::Option* option, bool) const override {
    std::string head = "  " + option->get_name(false, true);
    for (std::size_t at = 0; (at = head.find(',', at)) != std::string::npos; at += 2) head.insert(at + 1, " ");
    head = head.substr(0, head.find("{false}"));
    if (option->get_type_size() != 0)
      head += " " + option->get_type_name().substr(0, option->get_type_name().find(':'));
    const std::string value = option->get_default_str();
    const std::string text = option->get_description() + (value.empty() ? "" : " (default: " + value + ")");
    const bool is_long = head.size() + 2 > kColumn;
    return (is_long ? head + "\n" + std::string(kColumn, ' ') : padded(head, kColumn)) +
           wrapped(text, kColumn, kWidth) + "\n";
  }

 private:
  static constexpr std::size_t kColumn = 28, kWidth = 110;
  std::vector<Example> examples_;
};

// How many characters differ.
inline std::size_t distance(const std::string& from, const std::string& to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t changed = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = std::exchange(row[j + 1], std::min({changed, row[j] + 1, row[j + 1] + 1}));
    }
  }
  return row.back();
}

// "; did you mean --ranks?", or nothing.
inline std::string nearest(const CLI::App& app, const std::string& flag) {
  std::string best;
  std::size_t least = flag.size() / 3 + 1;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      if (distance(flag, "--" + name) < least) {
        best = "--" + name;
        least = distance(flag, best);
      }
    }
  }
  return best.empty() ? "" : "; did you mean " + best + "?";
}

inline std::string what_is_wrong(const CLI::App& app, const CLI::ParseError& error) {
  const std::string told = error.what();
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ArgumentMismatch))
    return told.substr(0, told.find(": ")) + ": a value is missing";
  if (error.get_exit_code() != static_cast<int>(CLI::ExitCodes::ExtrasError)) return told;
  std::vector<std::string> extras = app.remaining();
  std::stable_partition(extras.begin(), extras.end(), [](const std::string& text) { return text.starts_with("-"); });
  return "unrecognized arguments: " + CLI::detail::join(extras, " ") + nearest(app, extras.front());
}

}  // namespace command_line

inline void add_examples(CLI::App* app, std::vector<Example> examples) {
  app->formatter(std::make_shared<command_line::Formatter>(std::move(examples)));
  app->set_help_flag("-h,--help", "show this help message and exit");
}

// A number in these bounds, as the user types it.
inline CLI::Validator number_in(double least, double most) {
  return CLI::Validator(
      [least, most](const std::string& text) {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        if (*end == '\0' && !text.empty() && value >= least && value <= most) return std::string();
        char bounds[64];
        std::snprintf(bounds, sizeof bounds, "from %.10g to %.10g", least, most);
        return "'" + text + "' is no number " + bounds;
      },
      "");
}

// One of some names, which the help has as {a,b}.
inline CLI::Option* choose(CLI::Option* option, const std::vector<std::string>& names) {
  option->type_name("{" + CLI::detail::join(names, ",") + "}");
  return option->check(CLI::Validator(
      [names](const std::string& text) {
        if (std::find(names.begin(), names.end(), text) != names.end()) return std::string();
        return "'" + text + "' is none of " + CLI::detail::join(names, ", ");
      },
      ""));
}

// Parses, then calls `finish`, which throws what CLI11 reports; what the program is to end with, where it is.
template <typename Finish>
std::optional<int> parse(CLI::App* app, int argc, char** argv, Finish finish) {
  try {
    app->parse(argc, argv);
    finish();
  } catch (const CLI::Success& done) {
    return app->exit(done);
  } catch (const CLI::ParseError& error) {
    const std::string& name = app->get_name();
    std::cerr << command_line::painted(2, name + ":", "1;31") << " " << command_line::what_is_wrong(*app, error)
              << " (`" << name << " --help` prints the options)\n";
    return 2;
  }
  return std::nullopt;
}

}  // namespace roda
