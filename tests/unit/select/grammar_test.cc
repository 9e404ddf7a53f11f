// The text of a table: what is read, what is printed, what is refused with which words.
#include <gtest/gtest.h>

#include <string>

#include "algorithms/select/table.h"

namespace roda::select {
namespace {

using schedule::Collective;

Table table(const std::string& text) {
  std::string error;
  const auto parsed = Table::parse(text, &error);
  EXPECT_TRUE(parsed) << error;
  return parsed.value_or(Table());
}

std::string error_of(const std::string& text) {
  std::string error = "none";
  EXPECT_FALSE(Table::parse(text, &error)) << text;
  return error;
}

TEST(Grammar, ReadsEveryPartOfARule) {
  const Table parsed = table("allreduce@host:1K-64M[2-16] = shm/oneshot, !gloo/ring, */native");
  ASSERT_EQ(parsed.rules().size(), 1u);
  const Table::Rule& rule = parsed.rules()[0];
  EXPECT_EQ(rule.collective, Collective::kAllreduce);
  EXPECT_EQ(rule.memory, Memory::kHost);
  EXPECT_EQ(rule.from, 1024u);
  EXPECT_EQ(rule.to, 64u << 20);
  EXPECT_EQ(rule.min_ranks, 2);
  EXPECT_EQ(rule.max_ranks, 16);
  EXPECT_EQ(rule.options, (std::vector<Option>{{"shm", "oneshot"}, {"gloo", "ring"}, {"*", "native"}}));
  EXPECT_EQ(rule.forbidden, (std::vector<bool>{false, true, false}));
}

TEST(Grammar, LimitsMayBeLeftOut) {
  const Table::Rule rule = table("barrier=x/signal").rules().at(0);
  EXPECT_EQ(rule.memory, std::nullopt);
  EXPECT_EQ(rule.from, 0u);
  EXPECT_EQ(rule.to, SIZE_MAX);
  EXPECT_EQ(rule.min_ranks, 1);
  EXPECT_EQ(rule.max_ranks, INT32_MAX);
}

TEST(Grammar, RulesEndAtSemicolonsAndLines) {
  EXPECT_EQ(table("").rules().size(), 0u);
  EXPECT_EQ(table(" ;;\n# only a comment").rules().size(), 0u);
  EXPECT_EQ(table("barrier=a/signal;barrier=b/signal\r\n\tbarrier = c/signal # why ; not\n").rules().size(), 3u);
}

TEST(Grammar, Ranks) {
  EXPECT_EQ(table("barrier[4]=a/signal").rules()[0].min_ranks, 4);
  EXPECT_EQ(table("barrier[4]=a/signal").rules()[0].max_ranks, 4);
  EXPECT_EQ(table("barrier[4-]=a/signal").rules()[0].max_ranks, INT32_MAX);
}

TEST(Grammar, PrintsInOneForm) {
  EXPECT_EQ(table("allreduce @ cuda : 0 - 2048 [ 3 - 3 ]=a/ring , ! */direct;barrier[1-]=a/native").to_text(),
            "allreduce@cuda:0-2K[3] = a/ring, !*/direct\nbarrier = a/native\n");
  EXPECT_EQ(table("broadcast:1500-3G[2-]=a/direct").to_text(), "broadcast:1500-3G[2-] = a/direct\n");
  EXPECT_EQ(table("broadcast:0-inf=a/direct").to_text(), "broadcast = a/direct\n");
  EXPECT_EQ(table("broadcast:64K-inf=a/direct").to_text(), "broadcast:64K-inf = a/direct\n");
}

TEST(Grammar, FormatsStandBehindAlgorithms) {
  const Table parsed = table("allreduce@between:64K-inf = !tcp/ring/int4, */ordered/int8_stochastic, */ring");
  EXPECT_TRUE(parsed.rules()[0].between);
  EXPECT_EQ(parsed.rules()[0].memory, std::nullopt);
  EXPECT_EQ(parsed.rules()[0].options,
            (std::vector<Option>{{"tcp", "ring/int4"}, {"*", "ordered/int8_stochastic"}, {"*", "ring"}}));
  EXPECT_EQ(parsed.to_text(), "allreduce@between:64K-inf = !tcp/ring/int4, */ordered/int8_stochastic, */ring\n");
  EXPECT_EQ(table(parsed.to_text()).hash(), parsed.hash());
  EXPECT_NE(table("allreduce = a/ring/int8").hash(), table("allreduce = a/ring/int4").hash());
}

TEST(Grammar, WhatIsPrintedReadsBackTheSame) {
  const Table all = Table::defaults().overridden_by(table("alltoall@cuda:7-8M[2-9]=!shm/direct,*/pairwise"));
  const Table again = table(all.to_text());
  EXPECT_EQ(again.to_text(), all.to_text());
  EXPECT_EQ(again.hash(), all.hash());
  EXPECT_EQ(again.rules().size(), all.rules().size());
}

TEST(Grammar, HashTellsTablesApart) {
  EXPECT_EQ(table("").hash(), 0xcbf29ce484222325u);  // FNV-1a of nothing
  EXPECT_EQ(table("barrier=a/signal").hash(), table("barrier = a/signal;").hash());
  EXPECT_NE(table("barrier=a/signal").hash(), table("barrier=b/signal").hash());
  EXPECT_NE(table("barrier=a/signal;barrier=b/signal").hash(), table("barrier=b/signal;barrier=a/signal").hash());
}

TEST(GrammarErrors, NameRuleLineAndColumn) {
  EXPECT_EQ(error_of("barrier=a/signal\n\nallreduce = shm/rign"),
            "rule 2 (line 3, column 17): unknown algorithm 'rign' for allreduce; known: native, binomial, direct, "
            "double_binary_tree, oneshot, ordered, rabenseifner, recursive_doubling, ring, twoshot");
  EXPECT_EQ(error_of("barrier=a/signal; all_reduce = shm/ring"),
            "rule 2 (line 1, column 19): unknown collective 'all_reduce'; known: allreduce, allgather, broadcast, "
            "adasum, alltoall, barrier, reducescatter, reduce");
  EXPECT_EQ(error_of("barrier@disk = a/signal"),
            "rule 1 (line 1, column 9): unknown place 'disk'; known: host, cuda, between");
}

TEST(GrammarErrors, Sizes) {
  const std::string place = "rule 1 (line 1, column 9): ";
  EXPECT_EQ(error_of("barrier:64K-64K=a/signal"), place + "the range of sizes is empty: it runs from <= bytes < to");
  EXPECT_EQ(error_of("barrier:64X-inf=a/signal"), place + "expected a size such as 64K or inf, not '64X'");
  EXPECT_EQ(error_of("barrier:K-inf=a/signal"), place + "expected a size such as 64K or inf, not 'K'");
  EXPECT_EQ(error_of("barrier:99999999999999999999-inf=a/signal"),
            place + "the size '99999999999999999999' is too large");
  EXPECT_EQ(error_of("barrier:99999999999999999G-inf=a/signal"), place + "the size '99999999999999999G' is too large");
  EXPECT_EQ(error_of("barrier:1K=a/signal"),
            "rule 1 (line 1, column 11): expected '-' after the smaller size, not '='");
  EXPECT_EQ(error_of("barrier:-1-5=a/signal"), place + "expected a size, not '-'");
}

TEST(GrammarErrors, Ranks) {
  const std::string place = "rule 1 (line 1, column 9): ";
  EXPECT_EQ(error_of("barrier[8-2]=a/signal"), place + "the range of ranks is empty: both ends belong to it");
  EXPECT_EQ(error_of("barrier[0]=a/signal"), place + "expected a number of ranks, 1 or more, not '0'");
  EXPECT_EQ(error_of("barrier[two]=a/signal"), place + "expected a number of ranks, 1 or more, not 'two'");
  EXPECT_EQ(error_of("barrier[99999999999]=a/signal"),
            place + "expected a number of ranks, 1 or more, not '99999999999'");
  EXPECT_EQ(error_of("barrier[2=a/signal"),
            "rule 1 (line 1, column 10): expected ']' after the number of ranks, not '='");
}

TEST(GrammarErrors, Options) {
  EXPECT_EQ(error_of("barrier"),
            "rule 1 (line 1, column 8): expected '=' after the collective and its limits, not the end of the rule");
  EXPECT_EQ(error_of("barrier="), "rule 1 (line 1, column 9): expected a transport or '*', not the end of the rule");
  EXPECT_EQ(error_of("barrier=a"),
            "rule 1 (line 1, column 10): expected '/' after the transport, not the end of the rule");
  EXPECT_EQ(error_of("barrier=a/*"), "rule 1 (line 1, column 11): expected an algorithm, not '*'");
  EXPECT_EQ(error_of("barrier=a/signal,"),
            "rule 1 (line 1, column 18): expected a transport or '*', not the end of the rule");
  EXPECT_EQ(error_of("barrier=a/signal b/signal"),
            "rule 1 (line 1, column 18): expected ',' or the end of the rule, not 'b'");
  EXPECT_EQ(error_of("barrier=a/signal, !a/signal"), "rule 1 (line 1, column 19): a/signal stands twice in the rule");
  EXPECT_EQ(error_of("barrier=a/ring"),
            "rule 1 (line 1, column 11): unknown algorithm 'ring' for barrier; known: native, dissemination, signal");
  EXPECT_EQ(error_of("=a/signal"), "rule 1 (line 1, column 1): expected a collective, not '='");
  EXPECT_EQ(error_of("\x01"), "rule 1 (line 1, column 1): expected a collective, not a character out of place");
}

TEST(GrammarErrors, Formats) {
  const std::string place = "rule 1 (line 1, column 20): ";
  EXPECT_EQ(error_of("allreduce = a/ring/int7"),
            place +
                "unknown format 'int7'; known: bf16, fp16, fp8, int8, int4, bf16_stochastic, int8_stochastic, "
                "int4_stochastic, auto");
  EXPECT_EQ(error_of("allreduce = a/ring/"),
            place +
                "unknown format the end of the rule; known: bf16, fp16, fp8, int8, int4, bf16_stochastic, "
                "int8_stochastic, int4_stochastic, auto");
  EXPECT_EQ(error_of("broadcast = a/binomial/int8"),
            "rule 1 (line 1, column 24): formats are for allreduce, reducescatter and allgather, not for broadcast");
  EXPECT_EQ(error_of("broadcast = a/binomial/auto"),
            "rule 1 (line 1, column 24): formats are for allreduce, reducescatter and allgather, not for broadcast");
  std::string error;
  EXPECT_EQ(Table::parse("allgather@between = a/ring/auto", &error)->to_text(), "allgather@between = a/ring/auto\n");
  EXPECT_EQ(error_of("allreduce = a/direct/int8"),
            "rule 1 (line 1, column 22): direct works on its peers' memory and sends nothing that could have a format");
  EXPECT_EQ(error_of("allreduce = levels/hierarchical/int8"),
            "rule 1 (line 1, column 33): hierarchical has no format of its own: name an algorithm of messages, as in "
            "allreduce@between = tcp/ring/int8");
}

TEST(GrammarErrors, NobodyNeedsToAskForThem) { EXPECT_FALSE(Table::parse("nonsense", nullptr)); }

}  // namespace
}  // namespace roda::select
