//! Which objects a list or a watch is of: label and field selectors, taken together.
//!
//! A label that is not there fails every test for a value and passes every test against one. A field that is not there
//! counts as empty, so that `spec.nodeName=` finds what has no node yet.
//!
//! Not here: how selectors are written (`setpoint_types::selector`).

use setpoint_types::selector::{
    FieldRequirement, FieldSelector, LabelOperator, LabelRequirement, LabelSelector, SelectorError,
};

use super::attributes::Attributes;
use super::catalog::Kind;
use super::error::Refusal;

/// Every requirement must hold. None at all: everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    pub attribute: Attribute,
    pub test: Test,
}

/// What of an object a requirement is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attribute {
    Label(String),
    /// The place among the kind's selectable fields.
    Field(usize),
    Name,
    Namespace,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
}

/// An object as a selection looks at it.
pub trait Selectable {
    fn label(&self, key: &str) -> Option<&str>;
    fn field(&self, place: usize) -> &str;
    fn name(&self) -> &str;
    fn namespace(&self) -> &str;
}

impl Selection {
    /// What the two selectors of a request ask for.
    pub fn parse(kind: &Kind, labels: &str, fields: &str) -> Result<Self, Refusal> {
        let unreadable =
            |field| move |error: SelectorError| Refusal::invalid(field, format!("cannot be read {error}"));
        let labels = LabelSelector::parse(labels).map_err(unreadable("label_selector"))?;
        let fields =
            FieldSelector::parse(fields, kind.fields.paths()).map_err(unreadable("field_selector"))?;
        let mut requirements: Vec<_> = labels.requirements().iter().map(Requirement::on_label).collect();
        for requirement in fields.requirements() {
            requirements.push(Requirement::on_field(requirement, kind)?);
        }
        Ok(Self { requirements })
    }

    #[cfg(test)]
    pub fn of(requirements: Vec<Requirement>) -> Self {
        Self { requirements }
    }

    /// The one name that can be selected, if the selectors say which.
    pub fn only_name(&self) -> Option<&str> {
        self.requirements.iter().find_map(|requirement| match (&requirement.attribute, &requirement.test) {
            (Attribute::Name, Test::In(names)) => names.first().map(String::as_str),
            _ => None,
        })
    }

    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    pub fn selects(&self, object: &impl Selectable) -> bool {
        self.requirements.iter().all(|requirement| requirement.holds(object))
    }
}

impl Requirement {
    fn on_label(requirement: &LabelRequirement) -> Self {
        let attribute = Attribute::Label(requirement.key.clone());
        let test = match &requirement.operator {
            LabelOperator::Equals(value) => Test::In(vec![value.clone()]),
            LabelOperator::NotEquals(value) => Test::NotIn(vec![value.clone()]),
            LabelOperator::In(values) => Test::In(values.iter().cloned().collect()),
            LabelOperator::NotIn(values) => Test::NotIn(values.iter().cloned().collect()),
            LabelOperator::Exists => Test::Exists,
            LabelOperator::NotExists => Test::Absent,
        };
        Self { attribute, test }
    }

    fn on_field(requirement: &FieldRequirement, kind: &Kind) -> Result<Self, Refusal> {
        let FieldRequirement { field, equals, value } = requirement;
        let attribute = match field.as_str() {
            "metadata.name" => Attribute::Name,
            "metadata.namespace" => Attribute::Namespace,
            path => Attribute::Field(kind.fields.place(path).ok_or_else(|| {
                Refusal::invalid(
                    "field_selector",
                    format!("names {path}, which this kind does not select by"),
                )
            })?),
        };
        let values = vec![value.clone()];
        Ok(Self { attribute, test: if *equals { Test::In(values) } else { Test::NotIn(values) } })
    }

    fn holds(&self, object: &impl Selectable) -> bool {
        let value = match &self.attribute {
            Attribute::Label(key) => object.label(key),
            Attribute::Field(place) => Some(object.field(*place)),
            Attribute::Name => Some(object.name()),
            Attribute::Namespace => Some(object.namespace()),
        };
        match &self.test {
            Test::In(values) => value.is_some_and(|value| values.iter().any(|it| it == value)),
            Test::NotIn(values) => !value.is_some_and(|value| values.iter().any(|it| it == value)),
            Test::Exists => value.is_some(),
            Test::Absent => value.is_none(),
        }
    }
}

/// Attributes with the name they belong to.
pub struct Named<'a> {
    pub attributes: &'a Attributes<'a>,
    pub namespace: &'a str,
    pub name: &'a str,
}

impl Selectable for Named<'_> {
    fn label(&self, key: &str) -> Option<&str> {
        self.attributes.label(key)
    }

    fn field(&self, place: usize) -> &str {
        self.attributes.fields.get(place).map_or("", |text| &**text)
    }

    fn name(&self) -> &str {
        self.name
    }

    fn namespace(&self) -> &str {
        self.namespace
    }
}
