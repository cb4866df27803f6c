//! How results are shown: which form was asked for, and objects in that form.
//!
//! | module | what |
//! |---|---|
//! | [`table`], [`column`] | tables for people, and their cells |
//! | [`jsonpath`] | expressions that pick from JSON |
//! | [`objects`] | lists of objects, in every form |
//! | [`changed`] | an object that a command has changed |
//! | [`difference`] | two texts compared, as `diff -u` does |
//! | [`age`], [`colour`] | times and words for people |

pub mod age;
pub mod changed;
pub mod colour;
pub mod column;
pub mod difference;
pub mod jsonpath;
pub mod objects;
pub mod table;

use clap::Args;
use serde_json::Value;
use setpoint_types::object::Object;

use crate::failure::Failure;
use crate::near;
use jsonpath::Template;

/// The form of a result.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Format {
    #[default]
    Table,
    Wide,
    Json,
    Yaml,
    Name,
    JsonPath(Template),
}

const FORMATS: [&str; 6] = ["table", "wide", "json", "yaml", "name", "jsonpath"];

impl Format {
    /// As it is written after `-o`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, rest) = text.split_once('=').map_or((text, None), |(name, rest)| (name, Some(rest)));
        match (name, rest) {
            ("table", None) => Ok(Self::Table),
            ("wide", None) => Ok(Self::Wide),
            ("json", None) => Ok(Self::Json),
            ("yaml", None) => Ok(Self::Yaml),
            ("name", None) => Ok(Self::Name),
            ("jsonpath", Some(template)) if !template.is_empty() => {
                Template::parse(template).map(Self::JsonPath).map_err(|error| error.to_string())
            }
            ("jsonpath", _) => Err("write jsonpath=EXPRESSION, as in jsonpath={.metadata.name}".to_owned()),
            _ => Err(match near::nearest(name, FORMATS) {
                Some(near) => format!("there is no such form; did you mean {near}?"),
                None => format!("there is no such form; choose one of {}", FORMATS.join(", ")),
            }),
        }
    }
}

/// What commands that show objects understand.
#[derive(Args, Clone, Debug, Default)]
pub struct Output {
    /// table, wide, json, yaml, name or jsonpath=EXPRESSION
    #[arg(short = 'o', long = "output", value_name = "FORM", value_parser = Format::parse, default_value = "table")]
    pub format: Format,
    /// A table without its first line
    #[arg(long)]
    pub no_headers: bool,
    /// A last column with all labels
    #[arg(long)]
    pub show_labels: bool,
    /// A column for each of these labels
    #[arg(short = 'L', long, value_name = "KEY", value_delimiter = ',')]
    pub label_columns: Vec<String>,
    /// In the order of what this JSONPath finds: .metadata.createdMs
    #[arg(long, value_name = "JSONPATH", value_parser = parse_template)]
    pub sort_by: Option<Template>,
    /// With who decides which field
    #[arg(long)]
    pub show_managed_fields: bool,
}

fn parse_template(text: &str) -> Result<Template, String> {
    Template::parse(text).map_err(|error| error.to_string())
}

/// An object as a document. Who decides which field is left out unless asked for: it is most of the text, and rarely of
/// interest.
pub fn document(object: &Object, managed_fields: bool) -> Value {
    let mut document = serde_json::to_value(object).unwrap_or_default();
    if !managed_fields && let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    document
}

pub fn json(document: &Value) -> String {
    format!("{document:#}\n")
}

pub fn yaml(document: &Value) -> Result<String, Failure> {
    let text = serde_saphyr::to_string(document)
        .map_err(|error| Failure::failed(format!("it cannot be written as YAML: {error}")))?;
    Ok(if text.ends_with('\n') { text } else { format!("{text}\n") })
}
