// The members of a JSON object, each taken once and by its type; what is wrong is named by its place in the file.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>

namespace roda::text {

// Thrown inside a reader and caught by it: readers return their errors.
struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Fields {
 public:
  // `place`: what errors begin with, "level 2".
  Fields(const nlohmann::json& object, std::string place) : object_(object), place_(std::move(place)) {
    if (!object.is_object()) fail("is no object");
  }

  [[noreturn]] void fail(const std::string& what) const { throw Wrong(place_ + ": " + what); }

  bool has(const char* name) const { return object_.contains(name); }

  const nlohmann::json& required(const char* name) {
    if (!has(name)) fail("has no \"" + std::string(name) + "\"");
    seen_.insert(name);
    return object_.at(name);
  }

  std::string text(const char* name) {
    const nlohmann::json& value = required(name);
    if (!value.is_string()) fail("\"" + std::string(name) + "\" must be a text");
    return value.get<std::string>();
  }

  double number(const char* name, double otherwise) {
    if (!has(name)) return otherwise;
    const nlohmann::json& value = required(name);
    if (!value.is_number()) fail("\"" + std::string(name) + "\" must be a number");
    return value.get<double>();
  }

  std::int32_t whole(const char* name, std::int32_t least, std::int32_t most) {
    const nlohmann::json& value = required(name);
    const bool fits = value.is_number_integer() && value >= least && value <= most;
    if (!fits) {
      fail("\"" + std::string(name) + "\" must be a whole number from " + std::to_string(least) + " to " +
           std::to_string(most));
    }
    return value.get<std::int32_t>();
  }
  std::int32_t whole(const char* name, std::int32_t least, std::int32_t most, std::int32_t otherwise) {
    return has(name) ? whole(name, least, most) : otherwise;
  }

  bool flag(const char* name, bool otherwise) {
    if (!has(name)) return otherwise;
    const nlohmann::json& value = required(name);
    if (!value.is_boolean()) fail("\"" + std::string(name) + "\" must be true or false");
    return value.get<bool>();
  }

  const nlohmann::json& list(const char* name) {
    const nlohmann::json& value = required(name);
    if (!value.is_array()) fail("\"" + std::string(name) + "\" must be a list");
    return value;
  }

  // Whatever was not asked for is a mistake.
  void end() const {
    for (const auto& [name, value] : object_.items()) {
      if (seen_.count(name) == 0) fail("there is no \"" + name + "\" here");
    }
  }

 private:
  const nlohmann::json& object_;
  std::string place_;
  std::set<std::string> seen_;
};

// The text as JSON; Wrong with line and column where it is none.
inline nlohmann::json parse_json(const std::string& text) {
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    const std::string what = error.what();
    const std::size_t begin = what.find("parse error");
    throw Wrong("is no JSON: " + (begin == std::string::npos ? what : what.substr(begin)));
  }
}

}  // namespace roda::text
