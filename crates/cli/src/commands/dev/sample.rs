//! The sample workload: applied once, waited for, and asked over HTTP as its users would.

use std::path::Path;
use std::time::Duration;

use setpoint_client::{Client, Endpoint, EndpointError, Error, ListOptions, Scope, Settings, WriteOptions};
use setpoint_types::Object;
use setpoint_types::kinds::{Replica, Workload, WorkloadStatus};
use tokio::time::{Instant, sleep};

use super::http;

/// A node, a controller, a scheduler and an agent have to see it, and three processes to start.
const PATIENCE: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(200);
const NAMESPACE: &str = "default";
pub const NAME: &str = "hello";

#[derive(Debug, thiserror::Error)]
pub enum SampleError {
    #[error("the client cannot be made")]
    Endpoint(#[from] EndpointError),
    #[error("the client cannot be made")]
    Client(#[from] setpoint_client::BuildError),
    #[error("the sample workload cannot be applied")]
    Apply(#[source] Error),
    #[error("the sample workload cannot be read")]
    Read(#[source] Error),
    #[error("the file of the sample is damaged: {0}")]
    File(String),
}

/// What became of the sample.
#[derive(Debug, PartialEq, Eq)]
pub enum Seen {
    /// It serves; here is a place where it answers, and what it says.
    Serving { url: String, answer: String },
    /// It is there, and does not serve: why, as far as it is known.
    Waiting(String),
    /// Somebody has deleted it, or scaled it to nothing.
    Gone,
}

pub struct Sample {
    client: Client,
}

impl Sample {
    pub fn new(endpoints: &[String]) -> Result<Self, SampleError> {
        let endpoints = endpoints.iter().map(|it| it.parse::<Endpoint>()).collect::<Result<_, _>>()?;
        Ok(Self { client: Client::new(Settings::new(endpoints))?.with_manager("setpoint-dev") })
    }

    pub async fn apply(&self, program: &Path) -> Result<(), SampleError> {
        let object = object(program)?;
        let api = self.client.dynamic("Workload", Scope::namespace(NAMESPACE));
        api.apply(&object, false, &WriteOptions::default()).await.map_err(SampleError::Apply)?;
        Ok(())
    }

    /// Waits until it serves and answers, or until it is clear that there is nothing to wait for.
    pub async fn serving(&self) -> Result<Seen, SampleError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.client.api::<Workload>().namespace(NAMESPACE).find(NAME).await;
            let Some(workload) = found.map_err(SampleError::Read)? else { return Ok(Seen::Gone) };
            if workload.spec.replicas == 0 {
                return Ok(Seen::Gone);
            }
            let status = workload.status.unwrap_or_default();
            let is_current = status.observed_generation >= workload.metadata.generation;
            if is_current
                && status.replicas.serving >= workload.spec.replicas
                && let Some((url, answer)) = self.answer().await?
            {
                return Ok(Seen::Serving { url, answer });
            }
            if Instant::now() >= deadline {
                return Ok(Seen::Waiting(why(&status)));
            }
            sleep(POLL).await;
        }
    }

    /// Asks the replicas in turn; the first good answer.
    async fn answer(&self) -> Result<Option<(String, String)>, SampleError> {
        let replicas = self.client.api::<Replica>().namespace(NAMESPACE);
        let options = ListOptions { labels: format!("app={NAME}"), ..ListOptions::default() };
        let (replicas, _) = replicas.list_all(&options).await.map_err(SampleError::Read)?;
        let endpoints = replicas.into_iter().filter_map(|it| it.status).flat_map(|it| it.endpoints);
        for endpoint in endpoints {
            let address = format!("{}:{}", endpoint.host, endpoint.port);
            if let Some((200, answer)) = http::get(&address, "/").await {
                return Ok(Some((format!("http://{address}/"), answer)));
            }
        }
        Ok(None)
    }
}

/// The example as it is in the repository, with this program in the place of `setpoint`, which need not be on anybody's path.
fn object(program: &Path) -> Result<Object, SampleError> {
    let text = include_str!("../../../../../examples/workloads/hello.yaml");
    let mut object: Object =
        serde_saphyr::from_str(text).map_err(|error| SampleError::File(error.to_string()))?;
    match object.spec.pointer_mut("/template/command/0") {
        Some(word) => *word = program.display().to_string().into(),
        None => return Err(SampleError::File("it has no command".to_owned())),
    }
    Ok(object)
}

/// What keeps it from serving, in a line.
fn why(status: &WorkloadStatus) -> String {
    let counts = &status.replicas;
    let mut said = format!("{} of {} serve", counts.serving, counts.desired);
    let reasons = status
        .pending_reasons
        .iter()
        .map(|it| &it.message)
        .chain(status.last_error.iter().map(|error| &error.message));
    for reason in reasons.filter(|reason| !reason.is_empty()) {
        said = format!("{said}; {reason}");
    }
    said
}

#[cfg(test)]
mod tests {
    use setpoint_types::kinds::{LastError, WorkloadSpec};

    use super::*;

    #[test]
    fn the_example_is_a_workload_that_runs_this_program() {
        let object = object(Path::new("/opt/setpoint")).expect("the example is read");
        assert_eq!((object.kind.as_str(), object.metadata.name.as_str()), ("Workload", NAME));
        let spec: WorkloadSpec = serde_json::from_value(object.spec).expect("a spec");
        assert_eq!(spec.template.command, ["/opt/setpoint", "serve-hello"]);
        assert_eq!(spec.replicas, 3);
    }

    #[test]
    fn why_it_does_not_serve_is_what_the_controllers_say() {
        let mut status = WorkloadStatus::default();
        status.replicas.desired = 3;
        status.last_error = Some(LastError { message: "no room".to_owned(), ..LastError::default() });
        assert_eq!(why(&status), "0 of 3 serve; no room");
    }
}
