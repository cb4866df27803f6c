//! The refusals of several parts of one request, as one.

use setpoint_api::setpoint::v1::Reason;

use crate::objects::error::Refusal;

/// Problems beyond these are not looked for.
const PROBLEMS_MAX: usize = 32;

/// The first, with the problems of all that are invalid. What else comes after the first may only follow from it.
#[derive(Default)]
pub struct Refusals {
    first: Option<Refusal>,
    more: usize,
}

impl Refusals {
    pub fn add(&mut self, refusal: Refusal) {
        let invalid = refusal.reason() == Reason::Invalid;
        match &mut self.first {
            None => self.first = Some(refusal),
            Some(first) if invalid && first.reason() == Reason::Invalid => {
                first.error_mut().problems.extend(refusal.into_error().problems);
                self.more += 1;
            }
            Some(_) => {}
        }
    }

    /// Nothing that comes after could be told.
    pub fn is_enough(&self) -> bool {
        let told = |it: &Refusal| it.reason() != Reason::Invalid || it.error().problems.len() >= PROBLEMS_MAX;
        self.first.as_ref().is_some_and(told)
    }

    pub fn into_result(self) -> Result<(), Refusal> {
        let Some(mut first) = self.first else { return Ok(()) };
        if self.more > 0 {
            let message = &mut first.error_mut().message;
            *message = format!(
                "{}; and {} more of the writes are invalid",
                message.trim_end_matches('.'),
                self.more
            );
        }
        Err(first)
    }
}
