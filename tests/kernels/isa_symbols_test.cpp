// What is compiled for AVX2 or AVX-512 defines nothing under a name that other code may define too: of two
// weak definitions the linker keeps one, and a machine without those instructions might then be given the
// wrong one.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace millrace {
namespace {

/// The object files compiled for one instruction set; empty if there is no such.
std::vector<std::string> objects(const std::string& isa) {
  std::ifstream file(std::string(MILLRACE_BINARY_DIR) + "/tests/isa_objects_" + isa + ".txt");
  std::vector<std::string> names;
  std::string name;
  while (std::getline(file, name)) {
    while (!name.empty() && (name.back() == ',' || name.back() == ' ')) name.pop_back();
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

/// Global and weak symbols that an object file defines, demangled.
std::vector<std::string> defined_symbols(const std::string& object) {
  const std::string command = std::string(MILLRACE_NM) + " -C -g --defined-only '" + object + "'";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), &pclose);
  std::vector<std::string> symbols;
  std::string line;
  std::array<char, 4096> part{};
  while (pipe != nullptr && std::fgets(part.data(), part.size(), pipe.get()) != nullptr) {
    line += part.data();
    if (line.empty() || line.back() != '\n') continue;
    line.pop_back();
    std::istringstream fields(line);
    std::string address, kind, name;
    fields >> address >> kind;
    std::getline(fields >> std::ws, name);
    if (!name.empty()) symbols.push_back(name);
    line.clear();
  }
  return symbols;
}

bool is_a_sanitizers(const std::string& symbol) {
  for (const char* part : {"asan", "ubsan", "tsan", "__odr", "sancov"}) {
    if (symbol.find(part) != std::string::npos) return true;
  }
  return false;
}

TEST(IsaSymbols, StandInTheirInstructionSetsNamespace) {
  if (!std::ifstream(MILLRACE_NM)) GTEST_SKIP() << "there is no nm";
  int checked = 0;
  for (const std::string isa : {"baseline", "avx2", "avx512"}) {
    for (const std::string& object : objects(isa)) {
      ASSERT_TRUE(std::ifstream(object)) << object;
      const auto symbols = defined_symbols(object);
      EXPECT_FALSE(symbols.empty()) << object;
      for (const std::string& symbol : symbols) {
        if (is_a_sanitizers(symbol)) continue;
        EXPECT_NE(symbol.find("isa_" + isa + "::"), std::string::npos) << symbol << "\n  in " << object;
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 10);
}

TEST(IsaSymbols, OfTwoInstructionSetsAreNeverTheSame) {
  if (!std::ifstream(MILLRACE_NM)) GTEST_SKIP() << "there is no nm";
  std::map<std::string, std::set<std::string>> owners;
  for (const std::string isa : {"baseline", "avx2", "avx512"}) {
    for (const std::string& object : objects(isa)) {
      for (const std::string& symbol : defined_symbols(object)) {
        if (!is_a_sanitizers(symbol)) owners[symbol].insert(isa);
      }
    }
  }
  EXPECT_FALSE(owners.empty());
  for (const auto& [symbol, isas] : owners) EXPECT_EQ(isas.size(), 1u) << symbol;
}

}  // namespace
}  // namespace millrace
