// Reading JSON field by field, with the path of each for the error.
#pragma once

#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/topology/machine.h"
#include "plugins/base/format.h"

namespace roda::topology {

// Thrown inside the reader only; from_json turns it into a Status.
struct Malformed {
  std::string text;
};

// A value and where it stands. The document outlives it.
class Field {
 public:
  explicit Field(const nlohmann::json& value, std::string path = "") : value_(value), path_(std::move(path)) {}

  [[noreturn]] void refuse(const std::string& wanted) const {
    std::string shown = value_.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    if (shown.size() > 60) shown = shown.substr(0, 57) + "...";
    throw Malformed{roda::format("{} must be {}, not {}", path_.empty() ? "the document" : path_, wanted, shown)};
  }

  void must_be_object() const {
    if (!value_.is_object()) refuse("an object");
  }
  bool has(const char* key) const { return value_.contains(key); }
  Field operator[](const std::string& key) const {
    must_be_object();
    const auto found = value_.find(key);
    if (found == value_.end()) throw Malformed{roda::format("{}/{} is missing", path_, key)};
    return Field(*found, path_ + "/" + key);
  }
  // For each entry of an array (its index as the key) or an object, in order.
  void for_each(bool is_object, const std::function<void(const std::string& key, const Field& entry)>& visit) const {
    if (is_object ? !value_.is_object() : !value_.is_array()) refuse(is_object ? "an object" : "an array");
    for (const auto& [key, entry] : value_.items()) visit(key, Field(entry, path_ + "/" + key));
  }

  std::int64_t integer(std::int64_t least, std::int64_t most) const {
    const bool fits =
        value_.is_number_integer() && (!value_.is_number_unsigned() || value_.get<std::uint64_t>() <= INT64_MAX);
    const std::int64_t number = fits ? value_.get<std::int64_t>() : 0;
    if (!fits || number < least || number > most) refuse(roda::format("an integer from {} to {}", least, most));
    return number;
  }
  int count() const { return static_cast<int>(integer(0, std::numeric_limits<int>::max())); }
  double amount() const {
    if (!value_.is_number() || !(value_.get<double>() >= 0)) refuse("a number, 0 or more");
    return value_.get<double>();
  }
  bool truth() const {
    if (!value_.is_boolean()) refuse("true or false");
    return value_.get<bool>();
  }
  std::string text() const {
    if (!value_.is_string()) refuse("a text");
    return value_.get<std::string>();
  }
  CpuSet numbers() const {
    CpuSet set;
    if (!value_.is_string() || !parse_cpus(value_.get<std::string>(), &set)) {
      refuse("a list of numbers like \"0-3,8\", ascending");
    }
    return set;
  }
  template <typename T>
  std::vector<T> list(T (*one)(const Field&)) const {
    std::vector<T> out;
    for_each(false, [&](const std::string&, const Field& entry) { out.push_back(one(entry)); });
    return out;
  }

 private:
  const nlohmann::json& value_;
  std::string path_;
};

}  // namespace roda::topology
