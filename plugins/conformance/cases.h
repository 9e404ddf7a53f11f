// The cases, by subject. Each list is in the order it runs.
#pragma once

#include <vector>

#include "plugins/conformance/kit.h"

namespace roda::conformance {

extern const std::vector<Case> kGroupCases;
extern const std::vector<Case> kMessageCases;
extern const std::vector<Case> kOneSidedCases;
extern const std::vector<Case> kMemoryCases;
extern const std::vector<Case> kNativeCases;
extern const std::vector<Case> kSleepCases;
extern const std::vector<Case> kAbortCases;
extern const std::vector<Case> kDeathCases;
extern const std::vector<Case> kLeakCases;

}  // namespace roda::conformance
