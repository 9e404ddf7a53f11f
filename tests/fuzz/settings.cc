// Settings as the environment gives them: numbers, lists, words; names that nobody knows; plugins' tables.
#include <roda/sdk/settings.hpp>

#include <map>

#include "core/knobs/knobs.h"
#include "core/knobs/table.h"
#include "tests/fuzz/fuzz.h"

namespace roda::fuzz {
namespace {

void read_number(const std::string& text) {
  try {
    const std::int64_t number = sdk::parse_number("NAME", text.c_str(), -5, 1 << 20);
    require(number >= -5 && number <= 1 << 20, "a number is within its bounds");
  } catch (const sdk::Failure&) {
  }
}

}  // namespace

std::vector<std::string> seeds() {
  std::vector<std::string> seeds;
  for (std::size_t row = 0; row < knobs::table().size(); ++row) {
    const char* text = knobs::table()[row].default_text;
    seeds.push_back(number(static_cast<std::uint8_t>(row)) + (text != nullptr ? text : "1"));
  }
  seeds.push_back(number(std::uint8_t{255}) + "HOROVOD_FUSION_TRESHOLD=1");
  return seeds;
}

}  // namespace roda::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace roda;
  fuzz::Input input(data, size);
  const std::size_t row = input.number<std::uint8_t>() % (knobs::table().size() + 1);
  const std::string text(input.rest());
  fuzz::read_number(text);
  if (row == knobs::table().size()) {
    const char* const environment[] = {text.c_str(), nullptr};
    static_cast<void>(unknown_settings(environment, {"RODA_TCP_LANES"}, {"gloo"}));
    return 0;
  }
  const std::string name = knobs::table()[row].name;
  Status status;
  const Knobs read =
      Knobs::from_environment([&](const char* asked) { return name == asked ? text.c_str() : nullptr; }, &status);
  fuzz::require(status.ok() || status.message().find(name) != std::string::npos, "an error names the setting");
  static_cast<void>(read.describe(true, {}));
  return 0;
}
