#include "plugins/conformance/cases.h"

namespace roda::conformance {

const std::vector<Case>& all_cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> list;
    for (const auto* part : {&kGroupCases, &kMessageCases, &kOneSidedCases, &kMemoryCases, &kNativeCases, &kSleepCases,
                             &kAbortCases, &kDeathCases, &kLeakCases}) {
      list.insert(list.end(), part->begin(), part->end());
    }
    return list;
  }();
  return all;
}

}  // namespace roda::conformance
