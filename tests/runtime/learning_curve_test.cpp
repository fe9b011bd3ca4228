#include "runtime/learning_curve.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "runtime/gnuplot.hpp"

namespace millrace {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool gnuplot_is_there() { return !run_gnuplot("print 'x'\nset terminal dumb\nplot x\n").problem; }

Curve rising(const std::string& name, std::uint64_t last_step = 2'000'000) {
  Curve curve;
  curve.name = name;
  for (std::uint64_t i = 0; i <= 20; ++i)
    curve.points.push_back({last_step / 20 * i, 25.0 * static_cast<double>(i)});
  return curve;
}

/// What a program called gnuplot would have to do wrong; `PATH` leads to it while this lives.
class GnuplotInstead {
 public:
  explicit GnuplotInstead(const std::string& script) {
    std::string pattern = (fs::temp_directory_path() / "millrace-gnuplot-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    if (!script.empty()) {
      std::ofstream(folder_ / "gnuplot") << "#!/bin/sh\n" << script << "\n";
      ::chmod((folder_ / "gnuplot").c_str(), 0755);
    }
    old_ = std::getenv("PATH");
    ::setenv("PATH", (folder_.string() + (script.empty() ? "" : ":" + old_)).c_str(), 1);
  }
  ~GnuplotInstead() {
    ::setenv("PATH", old_.c_str(), 1);
    fs::remove_all(folder_);
  }

 private:
  fs::path folder_;
  std::string old_;
};

class LearningCurveTest : public testing::Test {
 protected:
  LearningCurveTest() {
    std::string pattern = (fs::temp_directory_path() / "millrace-curve-XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
  }
  ~LearningCurveTest() override { fs::remove_all(root_); }
  fs::path root_;
};

TEST(GnuplotString, SpecialCharactersAreNumbers) {
  EXPECT_EQ(gnuplot_string("CartPole-v1, 2.5: a_b"), "\"CartPole-v1, 2.5: a_b\"");
  EXPECT_EQ(gnuplot_string("it's"), R"("it\047s")");
  EXPECT_EQ(gnuplot_string("\"`$(x)`\\@;#"), R"("\042\140\044\050x\051\140\134\100\073\043")");
  EXPECT_EQ(gnuplot_string("a\nb\rc\td\x7f"), "\"a b c d \"");
  EXPECT_EQ(gnuplot_string(std::string("a\0b", 3)), "\"a b\"");
  EXPECT_EQ(gnuplot_string(""), "\"\"");
}

TEST(GnuplotString, OnlyUtf8GetsThrough) {
  EXPECT_EQ(gnuplot_string("\xce\xb5"), R"("\316\265")");
  EXPECT_EQ(gnuplot_string("\xf0\x9f\x8e\x89"), R"("\360\237\216\211")");
  const std::vector<std::pair<std::string, std::string>> broken = {
      {"\xff", "?"},
      {"a\xc3", "a?"},                            // cut off
      {"\xc3z", "?z"},                            // the next character is not swallowed
      {"\xc0\xa7", std::string(2, '?')},          // an overlong quote
      {"\xe0\x80\xa7", std::string(3, '?')},      // another
      {"\xed\xa0\x80", std::string(3, '?')},      // a surrogate
      {"\xf4\x90\x80\x80", std::string(4, '?')},  // behind the last character
  };
  for (const auto& [text, shown] : broken) EXPECT_EQ(gnuplot_string(text), "\"" + shown + "\"");
}

TEST_F(LearningCurveTest, SvgShowsTitleNamesAndUnits) {
  if (!gnuplot_is_there()) GTEST_SKIP() << "gnuplot is not installed";
  Picture picture;
  picture.title = "CartPole-v1, 2000 instances";
  picture.curves = {rising("greedy"), rising("while training")};
  const auto problem = draw_svg(picture, root_ / "c.svg");
  ASSERT_FALSE(problem) << *problem;
  const std::string svg = read(root_ / "c.svg");
  for (const char* wanted : {"<svg", "</svg>", "CartPole-v1, 2000 instances", "greedy", "while training",
                             "environment steps", "0.5M", ">2M<"}) {
    EXPECT_NE(svg.find(wanted), std::string::npos) << wanted;
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), fs::directory_iterator()), 1);
}

TEST_F(LearningCurveTest, HostileNamesAreShownAndDoNothing) {
  if (!gnuplot_is_there()) GTEST_SKIP() << "gnuplot is not installed";
  const fs::path trap = root_ / "trap";
  const std::string touch = "touch " + trap.string();
  const std::vector<std::string> hostile = {"'; system('" + touch + "') #",
                                            "\n!" + touch + "\n",
                                            "`" + touch + "`",
                                            "\"`" + touch + "`",
                                            "@trap",
                                            "'\nsystem \"" + touch + "\"\n'",
                                            "x' \\\n, '< " + touch + "' with lines title '",
                                            "e\ne\n",
                                            "a_b^{c}&<d>\\",
                                            "\xff\xfe'",
                                            "''; !" + touch};
  for (const std::string& name : hostile) {
    Picture picture;
    picture.title = name;
    picture.y_label = name;
    picture.curves = {rising(name), rising("other")};
    const auto problem = draw_svg(picture, root_ / "c.svg");
    EXPECT_FALSE(problem) << name << ": " << *problem;
    EXPECT_FALSE(fs::exists(trap)) << name;
    EXPECT_NE(read(root_ / "c.svg").find("other"), std::string::npos) << name;
    EXPECT_FALSE(draw_terminal(picture, 80).problem) << name;
  }
  Picture picture;
  picture.title = "a_b^{c}&<d>";
  picture.curves = {rising("x")};
  ASSERT_FALSE(draw_svg(picture, root_ / "c.svg"));
  EXPECT_NE(read(root_ / "c.svg").find("a_b^{c}&amp;&lt;d"), std::string::npos);
}

TEST_F(LearningCurveTest, TerminalPictureFitsTheWidth) {
  if (!gnuplot_is_there()) GTEST_SKIP() << "gnuplot is not installed";
  Picture picture;
  picture.title = "CartPole-v1";
  picture.curves = {rising("greedy", 20'000)};
  for (const int width : {40, 79, 133}) {
    const TerminalPicture drawn = draw_terminal(picture, width);
    ASSERT_FALSE(drawn.problem) << *drawn.problem;
    EXPECT_TRUE(drawn.text.ends_with("\n"));
    EXPECT_EQ(drawn.text.find('\f'), std::string::npos);
    EXPECT_NE(drawn.text.find("20k"), std::string::npos);
    std::size_t widest = 0;
    for (std::size_t start = 0; start < drawn.text.size();) {
      const std::size_t end = drawn.text.find('\n', start);
      widest = std::max(widest, end - start);
      start = end + 1;
    }
    EXPECT_LE(widest, static_cast<std::size_t>(width));
    EXPECT_GT(widest, static_cast<std::size_t>(width) * 3 / 4);
  }
}

TEST_F(LearningCurveTest, OddCurvesAreDrawn) {
  if (!gnuplot_is_there()) GTEST_SKIP() << "gnuplot is not installed";
  Picture picture;
  picture.curves = {{"one point", {{1000, 5.0}}}, {"flat", {{0, -200.0}, {1000, -200.0}}}, {"nothing", {}}};
  picture.curves.push_back(
      {"holes", {{0, std::nan("")}, {500, 1.0}, {900, std::numeric_limits<double>::infinity()}}});
  EXPECT_FALSE(draw_svg(picture, root_ / "c.svg"));
  picture.curves = {{"one point", {{0, 0.0}}}};
  EXPECT_FALSE(draw_svg(picture, root_ / "c.svg"));
}

TEST_F(LearningCurveTest, LongCurvesStaySmall) {
  if (!gnuplot_is_there()) GTEST_SKIP() << "gnuplot is not installed";
  Picture picture;
  picture.curves.resize(1);
  for (std::uint64_t i = 0; i < 100'001; ++i)
    picture.curves[0].points.push_back({i, std::sin(static_cast<double>(i))});
  ASSERT_FALSE(draw_svg(picture, root_ / "c.svg"));
  EXPECT_LT(fs::file_size(root_ / "c.svg"), 100'000u);
}

TEST_F(LearningCurveTest, NothingToDrawIsSaid) {
  Picture picture;
  EXPECT_TRUE(draw_svg(picture, root_ / "c.svg"));
  picture.curves = {{"empty", {}}, {"nan", {{1, std::nan("")}}}};
  EXPECT_TRUE(draw_svg(picture, root_ / "c.svg"));
  EXPECT_TRUE(draw_terminal(picture, 80).problem);
  EXPECT_FALSE(fs::exists(root_ / "c.svg"));
}

TEST_F(LearningCurveTest, AFileThatCannotBeWrittenIsSaid) {
  if (!gnuplot_is_there()) GTEST_SKIP() << "gnuplot is not installed";
  Picture picture;
  picture.curves = {rising("greedy")};
  const auto problem = draw_svg(picture, root_ / "none" / "c.svg");
  ASSERT_TRUE(problem);
  EXPECT_NE(problem->find("none/c.svg"), std::string::npos) << *problem;
}

TEST_F(LearningCurveTest, AMissingProgramIsOneLine) {
  const GnuplotInstead nothing("");
  Picture picture;
  picture.curves = {rising("greedy")};
  const auto problem = draw_svg(picture, root_ / "c.svg");
  ASSERT_TRUE(problem);
  EXPECT_NE(problem->find("gnuplot"), std::string::npos) << *problem;
  EXPECT_EQ(problem->find('\n'), std::string::npos) << *problem;
  EXPECT_FALSE(fs::exists(root_ / "c.svg"));
}

TEST_F(LearningCurveTest, AProgramThatFailsIsOneLineAndNoFile) {
  Picture picture;
  picture.curves = {rising("greedy")};
  // A big script, so that the program is gone before it is all sent.
  for (int i = 0; i < 400; ++i) picture.curves.push_back(rising("more"));
  ::signal(SIGPIPE, SIG_DFL);
  for (const char* script : {"exit 3", "echo first >&2; echo second >&2; exit 1", "kill -9 $$",
                             "exec <&-; echo half; exit 1", "cat >/dev/null; exit 0"}) {
    const GnuplotInstead other(script);
    const auto problem = draw_svg(picture, root_ / "c.svg");
    ASSERT_TRUE(problem) << script;
    EXPECT_EQ(problem->find('\n'), std::string::npos) << *problem;
    EXPECT_FALSE(fs::exists(root_ / "c.svg")) << script;
    EXPECT_TRUE(draw_terminal(picture, 80).text.empty()) << script;
  }
}

TEST_F(LearningCurveTest, TheProgramsOwnWordsAreInTheMessage) {
  const GnuplotInstead other(
      "cat >/dev/null; echo >&2; echo '\"stdin\" line 1: no memory' >&2; echo >&2; exit 1");
  Picture picture;
  picture.curves = {rising("greedy")};
  EXPECT_EQ(draw_svg(picture, root_ / "c.svg").value_or(""), "gnuplot failed: \"stdin\" line 1: no memory");
}

TEST_F(LearningCurveTest, NoDescriptorsOrChildrenStayBehind) {
  const auto open_files = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  Picture picture;
  picture.curves = {rising("greedy")};
  const auto before = open_files();
  for (const char* script : {"", "exit 1", "cat; exit 0"}) {
    const GnuplotInstead other(script);
    for (int i = 0; i < 5; ++i) (void)draw_terminal(picture, 80);
  }
  EXPECT_EQ(open_files(), before);
}

TEST(InterquartileMeanCurve, EqualStepsGiveTheMeanAtEach) {
  std::vector<Curve> curves(8);
  for (std::size_t i = 0; i < curves.size(); ++i) {
    curves[i].points = {{0, 0.0}, {100, static_cast<double>(i)}};
  }
  curves[7].points[1].value = 1e9;  // one of the two that are cut off above
  const std::vector<CurvePoint> mean = interquartile_mean_curve(curves);
  ASSERT_EQ(mean.size(), 2u);
  EXPECT_EQ(mean[0].value, 0.0);
  EXPECT_EQ(mean[1].step, 100u);
  EXPECT_EQ(mean[1].value, (2.0 + 3.0 + 4.0 + 5.0) / 4.0);
}

TEST(InterquartileMeanCurve, OtherStepsAreInterpolatedWhereAllCurvesAre) {
  const std::vector<Curve> curves = {{"a", {{0, 0.0}, {100, 10.0}, {200, 20.0}}},
                                     {"b", {{50, 1.0}, {150, 3.0}}}};
  const std::vector<CurvePoint> mean = interquartile_mean_curve(curves);
  ASSERT_EQ(mean.size(), 3u);
  EXPECT_EQ(mean[0].step, 50u);
  EXPECT_EQ(mean[0].value, (5.0 + 1.0) / 2.0);
  EXPECT_EQ(mean[1].step, 100u);
  EXPECT_EQ(mean[1].value, (10.0 + 2.0) / 2.0);
  EXPECT_EQ(mean[2].step, 150u);
  EXPECT_EQ(mean[2].value, (15.0 + 3.0) / 2.0);
}

TEST(InterquartileMeanCurve, NothingInCommonGivesNothing) {
  EXPECT_TRUE(interquartile_mean_curve({}).empty());
  EXPECT_TRUE(interquartile_mean_curve({{"a", {{0, 1.0}}}, {"b", {}}}).empty());
  EXPECT_TRUE(
      interquartile_mean_curve({{"a", {{0, 1.0}, {10, 1.0}}}, {"b", {{20, 1.0}, {30, 1.0}}}}).empty());
}

TEST(InterquartileMeanCurve, EachGroupOfSeedsGetsOne) {
  Picture picture;
  for (const char* group : {"CartPole-v1", "Acrobot-v1", "CartPole-v1", ""}) {
    Curve curve = rising("run");
    curve.group = group;
    picture.curves.push_back(curve);
  }
  add_interquartile_means(picture);
  ASSERT_EQ(picture.curves.size(), 5u);
  EXPECT_EQ(picture.curves[4].name, "CartPole-v1: interquartile mean of 2");
  EXPECT_TRUE(picture.curves[4].bold);
  EXPECT_EQ(picture.curves[4].points.back().value, 500.0);
}

}  // namespace
}  // namespace millrace
