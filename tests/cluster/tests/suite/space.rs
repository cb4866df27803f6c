//! Running out of the space that a node may use, and making room by compaction.

use setpoint_api::etcdserverpb as pb;
use setpoint_api::etcdserverpb::alarm_request::AlarmAction;
use setpoint_cluster_tests::testbed::{Setup, Testbed};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_the_quota_writes_stop_until_the_alarm_is_disarmed() {
    let bed = Testbed::start_with("at_the_quota", Setup::calm().with(&["--quota-bytes", "2000000"])).await;
    let value = "x".repeat(100_000);
    let mut refused = None;
    for round in 0..200 {
        match bed.clients[round % 3].put(&format!("k{}", round % 10), &value).await {
            Ok(_) => {}
            Err(status) => {
                refused = Some(status);
                break;
            }
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let refused = refused.expect("twenty megabytes do not fit into two");
    assert_eq!(refused.message(), "etcdserver: mvcc: database space exceeded");
    bed.until("every node refuses", || async {
        let mut all = true;
        for client in &bed.clients {
            all &=
                client.put("k0", "v").await.is_err_and(|status| status.message().contains("space exceeded"));
        }
        all
    })
    .await;
    assert!(bed.clients[0].get("k0").await.expect("reads go on").is_some());
    for key in 0..10 {
        bed.clients[1].delete(&format!("k{key}")).await.expect("deletes go on");
    }
    let alarms = |action: AlarmAction| pb::AlarmRequest { action: action.into(), ..Default::default() };
    let raised = bed.clients[2]
        .maintenance()
        .alarm(alarms(AlarmAction::Get))
        .await
        .expect("alarms")
        .into_inner()
        .alarms;
    assert!(raised.iter().any(|alarm| alarm.alarm() == pb::AlarmType::Nospace), "{raised:?}");

    let revision = bed.clients[1].revision().await.expect("revision");
    bed.clients[1].compact(revision).await.expect("compacted");
    bed.until("there is room again", || async {
        for client in &bed.clients {
            let _ = client.maintenance().defragment(pb::DefragmentRequest {}).await;
        }
        let mut small = true;
        for client in &bed.clients {
            small &= client.status().await.is_ok_and(|status| status.db_size < 1_000_000);
        }
        small
    })
    .await;
    for alarm in raised {
        let request = pb::AlarmRequest {
            action: AlarmAction::Deactivate.into(),
            member_id: alarm.member_id,
            alarm: alarm.alarm,
        };
        bed.clients[0].maintenance().alarm(request).await.expect("disarmed");
    }
    for client in &bed.clients {
        bed.until("writes go on", || async { client.put("again", "v").await.is_ok() }).await;
    }
    bed.no_panics();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_is_compacted_by_revisions() {
    let setup = Setup::calm().with(&["--retention-revisions", "50"]);
    let mut bed = Testbed::start_with("history_is_compacted_by_revisions", setup).await;
    let mut last = 0;
    for round in 0..200 {
        last = bed.barrier_write(round % 3).await;
    }
    let old = pb::RangeRequest { key: "barrier/0".into(), revision: 20, ..Default::default() };
    bed.until("old history is gone", || async {
        let mut gone = true;
        for client in &bed.clients {
            gone &=
                client.range(old.clone()).await.is_err_and(|status| status.message().contains("compacted"));
        }
        gone
    })
    .await;
    let kept = pb::RangeRequest { key: "barrier/0".into(), revision: last - 40, ..Default::default() };
    for client in &bed.clients {
        client.range(kept.clone()).await.expect("what is to be kept can be read");
    }
    bed.hashes_agree(last).await;
    bed.no_panics();
}
