// Announcements that are longer than a record of the log: very many tensors at once, and very long names.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/multi/engine/rank.h"

namespace roda::test {
namespace {

constexpr int kTensors = 10'000;

// Sums of one float each, as one group or each by itself.
void reduce_all(const std::vector<std::string>& names, bool grouped) {
  std::vector<float> in(names.size()), out(names.size());
  std::vector<roda_op> ops;
  const std::vector<std::int64_t> shape{1};
  for (std::size_t i = 0; i < names.size(); ++i) {
    in[i] = static_cast<float>(rank() + 1) * static_cast<float>(i % 100);
    ops.push_back(make_op(RODA_ALLREDUCE, names[i], shape, &in[i], &out[i]));
  }
  std::vector<roda_handle> handles(grouped ? 1 : ops.size());
  for (std::size_t h = 0; h < handles.size(); ++h) {
    const Outcome o = grouped ? submit(ops, &handles[h]) : submit({ops[h]}, &handles[h]);
    ASSERT_EQ(o.code, RODA_OK) << o.message;
  }
  for (const roda_handle handle : handles) {
    const Outcome o = wait(handle);
    ASSERT_EQ(o.code, RODA_OK) << o.message;
  }
  const float ranks = static_cast<float>(size() * (size() + 1) / 2);
  for (std::size_t i = 0; i < names.size(); ++i) ASSERT_EQ(out[i], ranks * static_cast<float>(i % 100)) << i;
}

std::vector<std::string> names_of(const std::string& what, int count, std::size_t length) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) {
    names.push_back(what + std::to_string(i));
    names.back().append(length - names.back().size(), '/');
  }
  return names;
}

TEST(Bursts, TenThousandTensorsInOneGroup) { reduce_all(names_of("grouped", kTensors, 70), true); }

TEST(Bursts, TenThousandTensorsEachByItself) { reduce_all(names_of("single", kTensors, 70), false); }

TEST(Bursts, NamesOfFourKilobytes) {
  for (int round = 0; round < 2; ++round) reduce_all(names_of("long", 500, 4096), round == 0);
}

TEST(Bursts, ANameMayHave64KilobytesAndNoMore) {
  reduce_all(names_of("longest", 3, 65'536), true);
  float value = 1;
  const Outcome o = run(make_op(RODA_ALLREDUCE, std::string(65'537, 'z'), {1}, &value, &value));
  EXPECT_EQ(o.code, RODA_ERR_INVALID);
  EXPECT_NE(o.message.find("zzz...': its name has 65537 bytes; at most 65536 are allowed"), std::string::npos)
      << o.message;
}

}  // namespace
}  // namespace roda::test
