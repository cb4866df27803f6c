//! Files have at most 600 lines and functions at most 70, so that each can be read in one go.
//!
//! Test functions may be longer: a long list of cases is easier to read than one cut into pieces. Test files may not.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::source::SourceFile;
use super::violation::Violation;

const RULE: &str = "length";
const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;

pub fn check(file: &SourceFile, violations: &mut Vec<Violation>) {
    if !file.is_rust() {
        return;
    }
    let lines = file.text.lines().count();
    if lines > FILE_LINES_MAX {
        let advice = format!("{lines} lines; split it by noun into files of at most {FILE_LINES_MAX}");
        violations.push(file.violation(FILE_LINES_MAX + 1, RULE, advice));
    }
    if let Some(syntax) = file.shipped_syntax() {
        LongFunctions { file, violations }.visit_file(&syntax);
    }
}

struct LongFunctions<'a> {
    file: &'a SourceFile,
    violations: &'a mut Vec<Violation>,
}

impl LongFunctions<'_> {
    /// Counts from the line of `fn` to the closing brace; attributes and documentation are not held against it.
    fn measure(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let first = signature.span().start().line;
        let lines = body.span().end().line - first + 1;
        if lines > FUNCTION_LINES_MAX {
            let advice = format!(
                "`{}` has {lines} lines; pull its steps out into functions of at most {FUNCTION_LINES_MAX}",
                signature.ident
            );
            self.violations.push(self.file.violation(first, RULE, advice));
        }
    }
}

impl<'ast> Visit<'ast> for LongFunctions<'_> {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.measure(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.measure(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(body) = &function.default {
            self.measure(&function.sig, body);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    fn lines_of(path: &str, text: String) -> Vec<usize> {
        let mut violations = Vec::new();
        check(&SourceFile::new(path, text), &mut violations);
        violations.iter().map(|violation| violation.line).collect()
    }

    /// A function of exactly `lines` lines, with what comes before `fn` given.
    fn function(before: &str, lines: usize) -> String {
        format!("{before}fn f() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
    }

    #[test]
    fn a_function_of_seventy_lines_passes_and_of_seventy_one_does_not() {
        assert_eq!(lines_of("a.rs", function("//! A.\n", 70)), NONE);
        assert_eq!(lines_of("a.rs", function("//! A.\n\n/// Doc.\n#[inline]\n", 71)), [5]);
    }

    #[test]
    fn methods_defaults_and_nested_modules_count_too() {
        let long = function("", 71);
        assert_eq!(lines_of("a.rs", format!("impl A {{\n{long}}}\n")), [2]);
        assert_eq!(lines_of("a.rs", format!("trait A {{\n{long}}}\n")), [2]);
        assert_eq!(lines_of("a.rs", format!("mod a {{\n mod b {{\n{long}}} }}\n")), [3]);
    }

    #[test]
    fn braces_in_text_and_comments_do_not_confuse_it() {
        let body = "    let s = \"}\"; // }\n    let c = '}'; /* } */\n".repeat(34);
        assert_eq!(lines_of("a.rs", format!("fn f() {{\n{body}}}\n")), NONE);
        assert_eq!(lines_of("a.rs", format!("fn f() {{\n{body}\n}}\n")), [1]);
    }

    #[test]
    fn test_functions_may_be_long_but_test_files_may_not() {
        assert_eq!(lines_of("a.rs", function("#[test]\n", 100)), NONE);
        assert_eq!(lines_of("crates/a/tests/a.rs", function("", 100)), NONE);
        assert_eq!(lines_of("crates/a/tests/a.rs", "// A line.\n".repeat(600)), NONE);
        assert_eq!(lines_of("crates/a/tests/a.rs", "// A line.\n".repeat(601)), [601]);
    }
}
