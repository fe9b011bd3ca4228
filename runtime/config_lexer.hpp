// Checks of a configuration's bytes before they are parsed.
//
// Thread safety: pure functions.
#pragma once

#include <string_view>

namespace millrace::configuration {

/// Throws UserError, with file, line and column, if the text is not UTF-8, holds control characters, or nests
/// keys, arrays or tables deeper than any configuration does; what passes cannot overflow a recursive
/// parser's stack.
void check_text(std::string_view text, std::string_view file_name);

}  // namespace millrace::configuration
