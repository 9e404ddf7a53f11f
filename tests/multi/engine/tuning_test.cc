// Autotuning while ranks exchange: every sum is right while the settings change, all ranks go on with the same ones,
// and rank 0 writes what it measured.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/multi/engine/rank.h"

namespace roda::test {
namespace {

constexpr int kTensors = 24;
constexpr int kMostSteps = 3000;
constexpr std::size_t kSearch = 7;  // HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES
// Where the user has set all but the waiting time: the header, the search, what is in force beside the finalists, of
// which there are fewer than three where the search came to the same place again, and the best.
constexpr std::size_t kMostRowsWithoutChoice = 1 + kSearch + 4 + 1;

bool has_choice() { return std::getenv("HOROVOD_FUSION_THRESHOLD") == nullptr; }

std::vector<std::vector<std::string>> log_rows() {
  std::ifstream file(std::getenv("HOROVOD_AUTOTUNE_LOG"));
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(file, line);) {
    std::istringstream cells(line);
    auto& row = rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, ',');) row.push_back(cell);
    row.resize(10);  // the last may be empty
  }
  return rows;
}

std::set<std::string> column(const std::vector<std::vector<std::string>>& rows, std::size_t number) {
  std::set<std::string> values;
  for (std::size_t row = 1; row < rows.size(); ++row) values.insert(rows[row].at(number));
  return values;
}

// Sums of tensors of many sizes, from 4 bytes to 256 KiB.
void step(int number) {
  std::vector<std::string> names;
  std::vector<std::vector<float>> tensors;
  std::vector<roda_handle> handles(kTensors);
  for (int i = 0; i < kTensors; ++i) {
    names.push_back("gradient" + std::to_string(i));
    tensors.emplace_back(std::size_t{1} << (i * 16 / (kTensors - 1)), static_cast<float>(rank() + number + i));
  }
  for (std::size_t i = 0; i < kTensors; ++i) {
    const std::vector<std::int64_t> shape{static_cast<std::int64_t>(tensors[i].size())};
    const Outcome o =
        submit({make_op(RODA_ALLREDUCE, names[i], shape, tensors[i].data(), tensors[i].data())}, &handles[i]);
    ASSERT_EQ(o.code, RODA_OK) << o.message;
  }
  for (const roda_handle handle : handles) {
    const Outcome o = wait(handle);
    ASSERT_EQ(o.code, RODA_OK) << o.message;
  }
  for (int i = 0; i < kTensors; ++i) {
    const auto sum = static_cast<float>(size() * (number + i) + size() * (size() - 1) / 2);
    for (const float value : tensors[static_cast<std::size_t>(i)])
      ASSERT_EQ(value, sum) << "step " << number << ", " << i;
  }
}

// What an earlier run of this test has found is not to be gone by.
const bool kIsFresh = [] {
  const char* number = std::getenv("HOROVOD_RANK");
  return number != nullptr && std::string(number) == "0" && std::remove(std::getenv("HOROVOD_AUTOTUNE_LOG")) == 0;
}();

// The last row says for which job it holds.
bool is_complete(const std::vector<std::vector<std::string>>& rows) {
  return rows.size() > 1 && !rows.back().at(8).empty();
}

TEST(Tuning, ChangesSettingsOnAllRanksAtOnceAndWritesThem) {
  float is_over = 0;
  int number = 0;
  for (; is_over == 0 && number < kMostSteps; ++number) {
    step(number % 100);
    if (HasFatalFailure()) return;
    if (number % 10 != 9) continue;
    is_over = rank() == 0 && is_complete(log_rows()) ? 1 : 0;
    const Outcome o = run(make_op(RODA_ALLREDUCE, "is over", {1}, &is_over, &is_over));
    ASSERT_EQ(o.code, RODA_OK) << o.message;
  }
  ASSERT_EQ(is_over, 1) << "after " << number << " steps";
  for (int i = 0; i < 3; ++i) step(i);  // with the best
  if (rank() != 0) return;
  const auto rows = log_rows();
  const std::vector<std::string> names{rows.front().begin() + 4, rows.front().end()};
  EXPECT_EQ(names, (std::vector<std::string>{"cycle_time_ms", "tensor_fusion_threshold", "score", "outstanding_buckets",
                                             "job", "select"}));
  EXPECT_GE(column(rows, 4).size(), 3u);
  if (!has_choice()) {
    EXPECT_LE(rows.size(), kMostRowsWithoutChoice);
    EXPECT_GE(rows.size(), kMostRowsWithoutChoice - 2);
    EXPECT_EQ(column(rows, 5), (std::set<std::string>{"2"}));
    EXPECT_EQ(column(rows, 7), (std::set<std::string>{"3"}));
    EXPECT_EQ(column(rows, 9), (std::set<std::string>{""}));
  } else {
    EXPECT_GE(column(rows, 5).size(), 4u);
    EXPECT_EQ(column(rows, 7), (std::set<std::string>{"1", "2", "4"}));
    EXPECT_GE(column(rows, 9).size(), 3u);  // none, and others than the table's
  }
}

TEST(Tuning, TheNextEngineBeginsWithWhatWasFound) {
  const auto found = rank() == 0 ? log_rows() : std::vector<std::vector<std::string>>();
  roda_shutdown();
  roda_error error{};
  error.struct_size = sizeof error;
  ASSERT_EQ(roda_init(nullptr, &error), RODA_OK) << error.message;
  for (int i = 0; i < 100; ++i) step(i);
  if (rank() != 0) return;
  EXPECT_TRUE(is_complete(found));
  EXPECT_EQ(log_rows(), found);
}

}  // namespace
}  // namespace roda::test
