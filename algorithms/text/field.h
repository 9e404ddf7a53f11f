// Values of a JSON document, read by their types; what is wrong is named by its path in the document
// ("/hosts/0/ranks").
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace roda::text {

// Names may hold bytes that are no UTF-8; they are replaced.
inline std::string dump(const nlohmann::json& value, int indent = -1) {
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Thrown inside a reader and caught by it: readers return their errors.
struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The document outlives its fields.
class Field {
 public:
  explicit Field(const nlohmann::json& value, std::string path = "") : value_(value), path_(std::move(path)) {}

  [[noreturn]] void refuse(const std::string& wanted) const {
    std::string shown = dump(value_);
    if (shown.size() > 60) shown = shown.substr(0, 57) + "...";
    throw Wrong((path_.empty() ? "the document" : path_) + " must be " + wanted + ", not " + shown);
  }
  void must(bool holds, const std::string& wanted) const {
    if (!holds) refuse(wanted);
  }

  const nlohmann::json& value() const { return value_; }

  // --- of an object ---
  bool has(const char* key) const {
    must(value_.is_object(), "an object");
    return value_.contains(key);
  }
  Field operator[](const char* key) const {
    if (!has(key)) throw Wrong(path_ + "/" + key + " is missing");
    seen_.insert(key);
    return Field(value_[key], path_ + "/" + key);
  }
  template <typename T>
  T get(const char* key) const {
    T value{};
    (*this)[key].to(&value);
    return value;
  }
  template <typename T>
  T get(const char* key, T otherwise) const {
    return has(key) ? get<T>(key) : otherwise;
  }
  int get(const char* key, int least, int most) const { return static_cast<int>((*this)[key].integer(least, most)); }
  int get(const char* key, int least, int most, int otherwise) const {
    return has(key) ? get(key, least, most) : otherwise;
  }
  // Whatever was not asked for is a mistake.
  void end() const {
    for (const auto& [key, value] : value_.items()) {
      if (!seen_.contains(key)) throw Wrong(path_ + "/" + key + " means nothing here");
    }
  }

  // For each entry of an array (its index as the key) or an object, in order: visit(key, field).
  void for_each(bool is_object, auto&& visit) const {
    must(is_object ? value_.is_object() : value_.is_array(), is_object ? "an object" : "an array");
    for (const auto& [key, entry] : value_.items()) visit(key, Field(entry, path_ + "/" + key));
  }
  void for_each(auto&& visit) const {
    for_each(false, [&](const std::string&, const Field& entry) { visit(entry); });
  }

  std::int64_t integer(std::int64_t least, std::int64_t most) const {
    const bool fits =
        value_.is_number_integer() && (!value_.is_number_unsigned() || value_.get<std::uint64_t>() <= INT64_MAX);
    const std::int64_t number = fits ? value_.get<std::int64_t>() : 0;
    must(fits && number >= least && number <= most,
         "an integer from " + std::to_string(least) + " to " + std::to_string(most));
    return number;
  }
  void to(int* out) const { *out = static_cast<int>(integer(0, std::numeric_limits<int>::max())); }
  void to(std::int64_t* out) const { *out = integer(0, std::int64_t{1} << 53); }
  void to(double* out) const {
    must(value_.is_number() && value_.get<double>() >= 0, "a number, 0 or more");
    *out = value_.get<double>();
  }
  void to(bool* out) const {
    must(value_.is_boolean(), "true or false");
    *out = value_.get<bool>();
  }
  void to(std::string* out) const {
    must(value_.is_string(), "a text");
    *out = value_.get<std::string>();
  }

 private:
  const nlohmann::json& value_;
  std::string path_;
  mutable std::set<std::string> seen_;
};

// The text as JSON; Wrong with line and column where it is none.
inline nlohmann::json parse_json(std::string_view text) {
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    const std::string what = error.what();
    const std::size_t begin = what.find("parse error");
    throw Wrong("it is no JSON: " + (begin == std::string::npos ? what : what.substr(begin)));
  }
}

}  // namespace roda::text
