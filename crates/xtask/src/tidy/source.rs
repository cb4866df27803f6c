//! A file as the rules see it: its text and, if it is Rust, its tokens with the test code left out.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, ImplItem, Item};

use super::violation::Violation;

/// A text file of the repository.
pub struct SourceFile {
    /// Relative to the root of the repository, with forward slashes.
    pub path: String,
    pub text: String,
    rust: Option<syn::Result<syn::File>>,
}

impl SourceFile {
    pub fn new(path: &str, text: String) -> Self {
        let rust = path.ends_with(".rs").then(|| syn::parse_file(&text));
        Self { path: path.to_owned(), text, rust }
    }

    pub fn is_rust(&self) -> bool {
        self.rust.is_some()
    }

    /// The parsed file, unless it is not Rust or has a syntax error (which `check_syntax` reports).
    pub fn syntax(&self) -> Option<&syn::File> {
        self.rust.as_ref()?.as_ref().ok()
    }

    /// The file is compiled for tests only, by its place: in a folder `tests` or `benches`, or named `tests.rs`.
    pub fn is_test(&self) -> bool {
        let in_folder = |name: &str| self.path.split('/').any(|part| part == name);
        in_folder("tests") || in_folder("benches") || in_folder("tests.rs")
    }

    /// The parsed file without its `#[test]` functions and `#[cfg(test)]` items.
    pub fn shipped_syntax(&self) -> Option<syn::File> {
        if self.is_test() {
            return None;
        }
        let mut file = self.syntax()?.clone();
        DropTests.visit_file_mut(&mut file);
        Some(file)
    }

    pub fn violation(&self, line: usize, rule: &'static str, advice: impl Into<String>) -> Violation {
        Violation { path: self.path.clone(), line, rule, advice: advice.into() }
    }
}

/// A Rust file that cannot be parsed would pass every other rule unseen.
pub fn check_syntax(file: &SourceFile, violations: &mut Vec<Violation>) {
    if let Some(Err(error)) = &file.rust {
        let line = error.span().start().line;
        violations.push(file.violation(line, "source", format!("make it parse as Rust: {error}")));
    }
}

/// The tokens of `syntax` in order, groups opened. Comments are not among them, and text stays in its literals.
pub fn flat_tokens(syntax: &impl ToTokens) -> Vec<TokenTree> {
    let mut flat = Vec::new();
    flatten(syntax.to_token_stream(), &mut flat);
    flat
}

fn flatten(tokens: TokenStream, flat: &mut Vec<TokenTree>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => flatten(group.stream(), flat),
            other => flat.push(other),
        }
    }
}

struct DropTests;

impl VisitMut for DropTests {
    fn visit_file_mut(&mut self, file: &mut syn::File) {
        file.items.retain(|item| !is_test_item(item));
        visit_mut::visit_file_mut(self, file);
    }

    fn visit_item_mod_mut(&mut self, module: &mut syn::ItemMod) {
        if let Some((_, items)) = &mut module.content {
            items.retain(|item| !is_test_item(item));
        }
        visit_mut::visit_item_mod_mut(self, module);
    }

    fn visit_item_impl_mut(&mut self, block: &mut syn::ItemImpl) {
        block.items.retain(|item| match item {
            ImplItem::Fn(function) => !function.attrs.iter().any(marks_test),
            _ => true,
        });
        visit_mut::visit_item_impl_mut(self, block);
    }
}

fn is_test_item(item: &Item) -> bool {
    let attributes = match item {
        Item::Fn(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Const(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        _ => return false,
    };
    attributes.iter().any(marks_test)
}

/// `#[test]`, `#[tokio::test]`, `#[test_case(..)]` and exactly `#[cfg(test)]`.
fn marks_test(attribute: &Attribute) -> bool {
    let path = attribute.path();
    if path.is_ident("cfg") {
        return attribute.parse_args::<syn::Ident>().is_ok_and(|only| only == "test");
    }
    path.segments.last().is_some_and(|last| last.ident == "test" || last.ident == "test_case")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_syntax_error_is_reported_where_it_is() {
        let mut violations = Vec::new();
        check_syntax(&SourceFile::new("a.rs", "//! A.\nfn f( {}\n".into()), &mut violations);
        assert_eq!(violations.len(), 1);
        assert_eq!((violations[0].line, violations[0].rule), (2, "source"));
    }

    #[test]
    fn test_code_is_not_shipped() {
        let text = "fn kept() {}\n#[test] fn a() {}\n#[tokio::test] async fn b() {}\n\
                    #[cfg(test)] mod tests { fn c() {} }\n#[cfg(not(test))] fn also_kept() {}\n";
        let file = SourceFile::new("crates/a/src/a.rs", text.into());
        let names: Vec<String> = file.shipped_syntax().map_or(Vec::new(), |syntax| {
            flat_tokens(&syntax)
                .windows(2)
                .filter(|pair| pair[0].to_string() == "fn")
                .map(|pair| pair[1].to_string())
                .collect()
        });
        assert_eq!(names, ["kept", "also_kept"]);
    }

    #[test]
    fn a_file_in_a_tests_folder_ships_nothing() {
        for path in ["tests/sim/a.rs", "crates/a/tests/b.rs", "crates/a/src/queue/tests.rs"] {
            assert!(SourceFile::new(path, "fn f() {}".into()).shipped_syntax().is_none(), "{path}");
        }
    }
}
