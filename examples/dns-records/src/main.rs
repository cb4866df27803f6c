//! `dns-records --zone NAME --file PATH`: the program around the controller.

use std::error::Error;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use dns_records::zone_file::ZoneFile;
use setpoint_client::Client;
use setpoint_types::names::check_dns_subdomain;

/// Publishes the DnsRecords of a cluster in a zone file
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The zone: example.com
    #[arg(long, value_name = "NAME", value_parser = zone_name)]
    zone: String,
    /// The zone file. All replicas of this program must see the same
    #[arg(long, value_name = "PATH")]
    file: PathBuf,
}

fn zone_name(text: &str) -> Result<String, String> {
    check_dns_subdomain(text).map(|()| text.to_owned()).map_err(|rule| format!("it {rule}"))
}

#[tokio::main]
async fn main() -> ExitCode {
    setpoint_runtime::exit_code(run(Arguments::parse()).await)
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(io::stderr().is_terminal()).init();
    let client = Client::from_config()?;
    let zone = ZoneFile::new(&arguments.zone, arguments.file);
    Ok(dns_records::run(client, zone, setpoint_runtime::stop_signal()).await?)
}
