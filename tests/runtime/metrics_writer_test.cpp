#include "runtime/metrics_writer.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/error.hpp"

namespace millrace {
namespace {

namespace fs = std::filesystem;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void append(const fs::path& path, std::string_view text) { std::ofstream(path, std::ios::app) << text; }

class MetricsWriterTest : public testing::Test {
 protected:
  MetricsWriterTest() {
    std::string pattern = (fs::temp_directory_path() / "millrace-metrics-XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
    folder_ = std::make_unique<RunFolder>(RunFolder::at(root_ / "run"));
  }
  ~MetricsWriterTest() override { fs::remove_all(root_); }

  /// A training row at each multiple of 100 in (from, to], and an evaluation beside each fourth.
  static void write_rows(MetricsWriter& writer, std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t step = from + 100; step <= to; step += 100) {
      const double x = static_cast<double>(step);
      writer.write({step, x / 1000.0, {{"a", 1.0 / x}, {"b", -x}}});
      if (step % 400 == 0) writer.write({step, x / 1000.0 + 0.01, {{"eval", std::sqrt(x)}}});
    }
  }

  const std::vector<std::string> columns_ = {"a", "b", "eval"};
  fs::path root_;
  std::unique_ptr<RunFolder> folder_;
};

TEST_F(MetricsWriterTest, RowsAreJsonLinesAndCsv) {
  MetricsWriter writer(*folder_, {"b", "a"}, std::nullopt);
  writer.write({100, 0.5, {{"a", 1.5}, {"b", -2.0}}});
  writer.write({18446744073709551615u, 1.0, {{"extra", 3.0}, {"a", 0.1}}});
  writer.flush();
  EXPECT_EQ(read(folder_->metrics_jsonl()),
            "{\"step\":100,\"wall_s\":0.5,\"a\":1.5,\"b\":-2}\n"
            "{\"step\":18446744073709551615,\"wall_s\":1,\"extra\":3,\"a\":0.1}\n");
  EXPECT_EQ(read(folder_->metrics_csv()),
            "step,wall_s,b,a\n"
            "100,0.5,-2,1.5\n"
            "18446744073709551615,1,,0.1\n");
}

TEST_F(MetricsWriterTest, ValuesThatAreNotFiniteAreNullAndEmpty) {
  MetricsWriter writer(*folder_, {"a", "b", "c"}, std::nullopt);
  writer.write({1, 0.0, {{"a", std::nan("")}, {"b", kInfinity}, {"c", -kInfinity}}});
  writer.flush();
  const auto row = nlohmann::json::parse(read(folder_->metrics_jsonl()));
  for (const char* name : {"a", "b", "c"}) EXPECT_TRUE(row.at(name).is_null()) << name;
  EXPECT_EQ(read(folder_->metrics_csv()), "step,wall_s,a,b,c\n1,0,,,\n");
}

TEST_F(MetricsWriterTest, NumbersComeBackWithTheSameBits) {
  const std::vector<double> values = {0.1, 1.0 / 3.0, 1e300, 5e-324, -1e16, 123456789012345680.0, 2.5e-9};
  MetricsWriter writer(*folder_, {"a"}, std::nullopt);
  for (std::size_t i = 0; i < values.size(); ++i) writer.write({i, 0.0, {{"a", values[i]}}});
  writer.flush();
  const std::vector<CurvePoint> points = read_metric(folder_->metrics_jsonl(), "a");
  ASSERT_EQ(points.size(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(points[i].value, values[i]);
}

TEST_F(MetricsWriterTest, TheHeaderIsThereBeforeTheFirstRow) {
  const MetricsWriter writer(*folder_, columns_, std::nullopt);
  EXPECT_EQ(read(folder_->metrics_csv()), "step,wall_s,a,b,eval\n");
}

TEST_F(MetricsWriterTest, WhatIsNotFlushedIsWrittenAtTheEnd) {
  {
    MetricsWriter writer(*folder_, columns_, std::nullopt);
    write_rows(writer, 0, 100'000);
  }
  EXPECT_EQ(read_metric(folder_->metrics_jsonl(), "a").size(), 1000u);
  EXPECT_EQ(read_metric(folder_->metrics_jsonl(), "eval").size(), 250u);
}

TEST_F(MetricsWriterTest, AResumedRunHasTheRowsOfAnUndisturbedOne) {
  {
    MetricsWriter writer(*folder_, columns_, std::nullopt);
    write_rows(writer, 0, 4000);
  }
  const std::string jsonl = read(folder_->metrics_jsonl());
  const std::string csv = read(folder_->metrics_csv());
  // Killed at any point behind a checkpoint at 2000: at a row's border, or in the middle of a row in either
  // file.
  for (const std::size_t cut : {jsonl.size(), jsonl.size() - 1, jsonl.size() - 7, jsonl.size() * 3 / 4}) {
    fs::resize_file(folder_->metrics_jsonl(), cut);
    fs::resize_file(folder_->metrics_csv(), csv.size() - cut % 13);
    {
      MetricsWriter writer(*folder_, columns_, 2000);
      write_rows(writer, 2000, 4000);
    }
    EXPECT_EQ(read(folder_->metrics_jsonl()), jsonl) << "cut to " << cut;
    EXPECT_EQ(read(folder_->metrics_csv()), csv) << "cut to " << cut;
  }
}

TEST_F(MetricsWriterTest, RowsOfTheCheckpointsOwnStepStay) {
  {
    MetricsWriter writer(*folder_, columns_, std::nullopt);
    write_rows(writer, 0, 4000);
  }
  const MetricsWriter writer(*folder_, columns_, 2000);
  EXPECT_EQ(read_metric(folder_->metrics_jsonl(), "a").back().step, 2000u);
  EXPECT_EQ(read_metric(folder_->metrics_jsonl(), "eval").back().step, 2000u);
}

TEST_F(MetricsWriterTest, OtherColumnsAfterAResumeFitAllRows) {
  { MetricsWriter(*folder_, {"a"}, std::nullopt).write({100, 0.5, {{"a", 1.0}, {"b", 2.0}}}); }
  { MetricsWriter(*folder_, {"b", "a"}, 100).write({200, 0.75, {{"a", 3.0}}}); }
  EXPECT_EQ(read(folder_->metrics_csv()), "step,wall_s,b,a\n100,0.5,2,1\n200,0.75,,3\n");
}

TEST_F(MetricsWriterTest, ResumeWithoutMetricsStartsThem) {
  { MetricsWriter(*folder_, {"a"}, 100).write({200, 0.5, {{"a", 1.0}}}); }
  EXPECT_EQ(read(folder_->metrics_csv()), "step,wall_s,a\n200,0.5,1\n");
}

TEST_F(MetricsWriterTest, AFullDiskIsARunErrorThatNamesTheFile) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  fs::create_symlink("/dev/full", folder_->metrics_jsonl());
  MetricsWriter writer(*folder_, columns_, std::nullopt);
  try {
    writer.write({1, 0.0, {{"a", 1.0}}});
    writer.flush();
    FAIL() << "the full device took it";
  } catch (const RunError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("metrics.jsonl"), std::string::npos) << message;
    EXPECT_NE(message.find("No space left"), std::string::npos) << message;
  }
}

TEST_F(MetricsWriterTest, AMissingFolderIsARunError) {
  fs::remove_all(folder_->path());
  EXPECT_THROW(MetricsWriter(*folder_, columns_, std::nullopt), RunError);
  EXPECT_THROW(MetricsWriter(*folder_, columns_, 5), RunError);
}

TEST_F(MetricsWriterTest, ReaderSkipsNullsAndATornEnd) {
  const fs::path path = root_ / "m.jsonl";
  append(path,
         "{\"step\":1,\"wall_s\":0,\"a\":1}\n{\"step\":2,\"wall_s\":0,\"a\":null}\n"
         "{\"step\":3,\"wall_s\":0}\n{\"step\":4,\"wall_s\":0,\"a\":4}\n{\"step\":5,\"wa");
  const std::vector<CurvePoint> points = read_metric(path, "a");
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[1].step, 4u);
  EXPECT_EQ(points[1].value, 4.0);
}

TEST_F(MetricsWriterTest, ReaderRefusesOtherLinesByNumber) {
  for (const std::string bad :
       {"{\"step\":5,\"wa", "[]", "", "{\"step\":-1,\"wall_s\":0}", "{\"step\":1.5,\"wall_s\":0}",
        "{\"step\":1}", "{\"step\":1,\"wall_s\":0,\"a\":\"x\"}", "nonsense", "\xff\xfe"}) {
    const fs::path path = root_ / "m.jsonl";
    fs::remove(path);
    append(path, "{\"step\":1,\"wall_s\":0,\"a\":1}\n" + bad + "\n{\"step\":9,\"wall_s\":0,\"a\":1}\n");
    try {
      (void)read_metric(path, "a");
      FAIL() << "took: " << bad;
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find("m.jsonl:2:"), std::string::npos) << error.what();
    }
  }
}

TEST_F(MetricsWriterTest, ReaderNamesAMissingFile) {
  try {
    (void)read_metric(root_ / "none.jsonl", "a");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("none.jsonl"), std::string::npos);
  }
}

}  // namespace
}  // namespace millrace
