//! `setpoint config set-context`, `set-cluster`, `set-credentials`: adding and changing entries.

use std::path::{Path, PathBuf};

use clap::Args;
use setpoint_client::Endpoint;
use setpoint_client::config::{ClusterEntry, ContextEntry, UserEntry};

use super::no_current;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::session::{Done, Session};

#[derive(Args)]
pub struct SetContext {
    /// The context; left out with --current
    #[arg(required_unless_present = "current", conflicts_with = "current")]
    name: Option<String>,
    /// The one that is used now
    #[arg(long)]
    current: bool,
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
}

#[derive(Args)]
pub struct SetCluster {
    name: String,
    /// Its nodes: `host:port` or URLs, several with commas; as -s of every command
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    endpoints: Vec<String>,
    /// A file with the certificate of who vouches for the nodes
    #[arg(long, value_name = "FILE")]
    certificate_authority: Option<PathBuf>,
    /// The name the nodes' certificates are for, if not their host
    #[arg(long, value_name = "NAME")]
    tls_server_name: Option<String>,
}

#[derive(Args)]
pub struct SetCredentials {
    name: String,
    /// A file with the token
    #[arg(long, value_name = "FILE", conflicts_with = "client_certificate")]
    token_file: Option<PathBuf>,
    #[arg(long, value_name = "FILE", requires = "client_key")]
    client_certificate: Option<PathBuf>,
    #[arg(long, value_name = "FILE", requires = "client_certificate")]
    client_key: Option<PathBuf>,
}

/// The entry of this name, added if there is none; and whether it was.
fn entry<'a, T: Default>(
    all: &'a mut Vec<T>,
    name: &str,
    name_of: impl Fn(&mut T) -> &mut String,
) -> (&'a mut T, bool) {
    let at = all.iter_mut().position(|it| name_of(it) == name);
    let is_new = at.is_none();
    let at = at.unwrap_or_else(|| {
        let mut fresh = T::default();
        name.clone_into(name_of(&mut fresh));
        all.push(fresh);
        all.len() - 1
    });
    (&mut all[at], is_new)
}

fn said(session: &mut Session, what: &str, name: &str, is_new: bool) -> Done {
    session.say(format!("{what} {name} {}", if is_new { "created" } else { "changed" }))?;
    Ok(Exit::Done)
}

/// Files are named from where the user is, and found from where the config is.
fn absolute(path: &Path) -> Result<String, Failure> {
    let path = std::path::absolute(path)
        .map_err(|error| Failure::usage(format!("{} is no path: {error}", path.display())))?;
    if !path.is_file() {
        return Err(Failure::usage(format!("there is no file {}", path.display())));
    }
    Ok(path.display().to_string())
}

impl SetContext {
    pub fn run(self, session: &mut Session) -> Done {
        let mut file = session.config_file()?;
        let name = match self.name {
            Some(name) => name,
            None => file.current_context.clone().ok_or_else(no_current)?,
        };
        let clusters: Vec<&str> = file.clusters.iter().map(|it| it.name.as_str()).collect();
        let users: Vec<&str> = file.users.iter().map(|it| it.name.as_str()).collect();
        let missing = |what: &str, name: &Option<String>, known: &[&str]| match name {
            Some(name) if !known.contains(&name.as_str()) => Err(Failure::new(
                Exit::NotFound,
                format!(
                    "there is no {what} {name:?}; there are: {}",
                    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
                ),
            )),
            _ => Ok(()),
        };
        missing("cluster", &self.cluster, &clusters)?;
        missing("user", &self.user, &users)?;
        let (context, is_new) = entry::<ContextEntry>(&mut file.contexts, &name, |it| &mut it.name);
        if is_new && self.cluster.is_none() {
            return Err(Failure::usage("a new context needs a cluster: --cluster NAME"));
        }
        if let Some(cluster) = self.cluster {
            context.cluster = cluster;
        }
        context.user = self.user.or(context.user.take());
        context.namespace = session.global.namespace.clone().or(context.namespace.take());
        file.save(&session.config_path()?)?;
        said(session, "context", &name, is_new)
    }
}

impl SetCluster {
    pub fn run(self, session: &mut Session) -> Done {
        let mut file = session.config_file()?;
        let endpoints =
            if self.endpoints.is_empty() { session.global.server.clone() } else { self.endpoints };
        for endpoint in &endpoints {
            endpoint.parse::<Endpoint>().map_err(|error| Failure::usage(error.to_string()))?;
        }
        let (cluster, is_new) = entry::<ClusterEntry>(&mut file.clusters, &self.name, |it| &mut it.name);
        if is_new && endpoints.is_empty() {
            return Err(Failure::usage("a new cluster needs its nodes: --endpoints HOST:PORT,…"));
        }
        if !endpoints.is_empty() {
            cluster.endpoints = endpoints;
        }
        if let Some(authority) = &self.certificate_authority {
            cluster.certificate_authority = Some(absolute(authority)?);
            cluster.certificate_authority_data = None;
        }
        cluster.tls_server_name = self.tls_server_name.or(cluster.tls_server_name.take());
        file.save(&session.config_path()?)?;
        said(session, "cluster", &self.name, is_new)
    }
}

impl SetCredentials {
    pub fn run(self, session: &mut Session) -> Done {
        let mut file = session.config_file()?;
        let (user, is_new) = entry::<UserEntry>(&mut file.users, &self.name, |it| &mut it.name);
        if let Some(token) = &session.global.token {
            user.token = Some(token.clone());
            user.token_file = None;
        }
        if let Some(token_file) = &self.token_file {
            user.token_file = Some(absolute(token_file)?);
            user.token = None;
        }
        if let (Some(certificate), Some(key)) = (&self.client_certificate, &self.client_key) {
            user.client_certificate = Some(absolute(certificate)?);
            user.client_key = Some(absolute(key)?);
            (user.client_certificate_data, user.client_key_data) = (None, None);
        }
        file.save(&session.config_path()?)?;
        said(session, "user", &self.name, is_new)
    }
}
