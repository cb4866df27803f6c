//! Attached agents, and sessions that wait for theirs.
//!
//! An agent may be attached several times, by several addresses of one node; the newest is asked first. At a later epoch of its
//! node's lease it takes the place of those before, who are told that they are over.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_api::setpoint::v1 as pb;
use setpoint_api::setpoint::v1::Reason;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::timeout;

use super::session::{AGENT_PATIENCE, Requests, Session, silent};
use crate::objects::Refusal;

/// Of one agent, over all its attachments to this node.
const SESSIONS_PER_AGENT: usize = 32;
/// Attachments of one agent; the oldest gives way.
const ATTACHMENTS_MAX: usize = 4;
/// Words that an agent was not told yet.
const UNTOLD_MAX: usize = SESSIONS_PER_AGENT;

/// Where words come from that nobody can guess.
type Draw = Arc<dyn Fn() -> u128 + Send + Sync>;

/// Clones are the same one.
#[derive(Clone)]
pub struct Switchboard(Arc<Inner>);

struct Inner {
    draw: Draw,
    agents: Mutex<Agents>,
    /// By their word.
    waiting: Mutex<HashMap<String, Waiting>>,
}

#[derive(Default)]
struct Agents {
    /// By their node.
    nodes: HashMap<String, Agent>,
    attached: u64,
}

struct Agent {
    epoch: u64,
    /// Oldest first.
    attachments: Vec<(u64, mpsc::Sender<String>)>,
    places: Arc<Semaphore>,
}

/// A client that waits for an agent.
pub struct Waiting {
    pub node: String,
    joined: oneshot::Sender<Joined>,
}

/// What an agent brings.
struct Joined {
    requests: Requests,
    answers: mpsc::Sender<pb::ServeResponse>,
}

/// An agent's place. Left when it is dropped.
pub struct Attachment {
    board: Switchboard,
    node: String,
    number: u64,
    /// Ends when another agent has taken the node.
    pub words: mpsc::Receiver<String>,
}

impl Switchboard {
    pub fn new(draw: Draw) -> Self {
        Self(Arc::new(Inner { draw, agents: Mutex::default(), waiting: Mutex::default() }))
    }

    pub fn attach(&self, node: &str, epoch: u64) -> Result<Attachment, Refusal> {
        let (told, words) = mpsc::channel(UNTOLD_MAX);
        let mut agents = self.0.agents.lock();
        let Agents { nodes, attached } = &mut *agents;
        *attached += 1;
        let number = *attached;
        let agent = nodes.entry(node.to_owned()).or_insert_with(|| Agent {
            epoch,
            attachments: Vec::new(),
            places: Arc::new(Semaphore::new(SESSIONS_PER_AGENT)),
        });
        if agent.epoch > epoch {
            let text = format!("node/{node} is attached at epoch {}, this is {epoch}", agent.epoch);
            return Err(Refusal::new(Reason::Fenced, text));
        }
        if agent.epoch < epoch {
            agent.attachments.clear();
            agent.epoch = epoch;
        }
        if agent.attachments.len() == ATTACHMENTS_MAX {
            agent.attachments.remove(0);
        }
        agent.attachments.push((number, told));
        Ok(Attachment { board: self.clone(), node: node.to_owned(), number, words })
    }

    /// A session with the agent of a node, once that has called back.
    pub async fn call(&self, node: &str) -> Result<Session, Refusal> {
        let not_attached = || {
            let text = format!(
                "the agent of node/{node} is not attached to this node of the cluster: it is down, cut off, or not told of this \
                 node's address; try again, or another node"
            );
            Refusal::new(Reason::Unavailable, text)
        };
        let (told, places) = {
            let agents = self.0.agents.lock();
            let agent = agents.nodes.get(node).ok_or_else(not_attached)?;
            let newest = agent.attachments.last().ok_or_else(not_attached)?;
            (newest.1.clone(), agent.places.clone())
        };
        let permit = places.try_acquire_owned().map_err(|_| {
            let text =
                format!("the agent of node/{node} has {SESSIONS_PER_AGENT} sessions, its most; end some");
            Refusal::new(Reason::TooManyRequests, text)
        })?;
        let word = format!("{:032x}", (self.0.draw)());
        let (joined, arrives) = oneshot::channel();
        self.0.waiting.lock().insert(word.clone(), Waiting { node: node.to_owned(), joined });
        // Also if nobody waits for this any more.
        let _forget = Forget { board: self, word: &word };
        told.try_send(word.clone()).map_err(|_| not_attached())?;
        match timeout(AGENT_PATIENCE, arrives).await {
            Ok(Ok(Joined { requests, answers })) => {
                Ok(Session { node: node.to_owned(), requests, answers, permit })
            }
            _ => Err(silent(node)),
        }
    }

    /// The client that waits for this word, if it still does.
    pub fn take(&self, word: &str) -> Option<Waiting> {
        self.0.waiting.lock().remove(word)
    }
}

impl Waiting {
    /// Joins an agent to the client that waits for it. False: it has gone.
    pub fn join(self, requests: Requests, answers: mpsc::Sender<pb::ServeResponse>) -> bool {
        self.joined.send(Joined { requests, answers }).is_ok()
    }
}

struct Forget<'b> {
    board: &'b Switchboard,
    word: &'b str,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.board.take(self.word);
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        let mut agents = self.board.0.agents.lock();
        if let Some(agent) = agents.nodes.get_mut(&self.node) {
            agent.attachments.retain(|(number, _)| *number != self.number);
            if agent.attachments.is_empty() {
                agents.nodes.remove(&self.node);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use futures::StreamExt;

    use super::*;

    fn board() -> Switchboard {
        let next = AtomicU64::new(1);
        Switchboard::new(Arc::new(move || next.fetch_add(1, Ordering::Relaxed).into()))
    }

    /// What an agent does with a word it is told.
    fn serve(board: &Switchboard, word: &str) -> mpsc::Receiver<pb::ServeResponse> {
        let (answers, told) = mpsc::channel(1);
        let waiting = board.take(word).expect("somebody waits");
        assert!(waiting.join(futures::stream::empty().boxed(), answers));
        told
    }

    /// How many agents are attached.
    fn attached(board: &Switchboard) -> usize {
        board.0.agents.lock().nodes.len()
    }

    async fn refused(board: &Switchboard, node: &str) -> Refusal {
        board.call(node).await.err().expect("it is refused")
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_is_joined_to_the_agent_that_knows_its_word() {
        let board = board();
        assert_eq!(refused(&board, "a1").await.reason(), Reason::Unavailable);
        let mut agent = board.attach("a1", 1).expect("attached");
        let (session, _told) = tokio::join!(board.call("a1"), async {
            let word = agent.words.recv().await.expect("a word");
            assert!(board.take("another word").is_none());
            serve(&board, &word)
        });
        assert_eq!(session.expect("joined").node, "a1");
        assert!(board.0.waiting.lock().is_empty());
        drop(agent);
        assert_eq!((attached(&board), refused(&board, "a1").await.reason()), (0, Reason::Unavailable));
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_that_does_not_call_back_is_not_waited_for_for_ever() {
        let board = board();
        let mut agent = board.attach("a1", 1).expect("attached");
        assert!(refused(&board, "a1").await.to_string().contains("does not answer"));
        let word = agent.words.recv().await.expect("a word");
        assert!(board.take(&word).is_none(), "nobody waits any more");
        // A client that goes away leaves nothing either.
        drop(timeout(std::time::Duration::from_secs(1), board.call("a1")).await);
        assert!(board.0.waiting.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_later_epoch_takes_the_node_and_an_earlier_one_does_not() {
        let board = board();
        let mut old = board.attach("a1", 1).expect("attached");
        let mut beside = board.attach("a1", 1).expect("by another address");
        let mut new = board.attach("a1", 2).expect("attached");
        assert_eq!((old.words.recv().await, beside.words.recv().await), (None, None));
        assert_eq!(board.attach("a1", 1).err().map(|it| it.reason()), Some(Reason::Fenced));
        drop((old, beside));
        let (session, _told) = tokio::join!(board.call("a1"), async {
            let word = new.words.recv().await.expect("the one that is left is asked");
            serve(&board, &word)
        });
        assert!(session.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_of_an_agent_are_bounded_and_a_place_that_is_left_is_taken_again() {
        let board = board();
        let mut agent = board.attach("a1", 1).expect("attached");
        let serving = async {
            let mut told = Vec::new();
            while let Some(word) = agent.words.recv().await {
                told.push(serve(&board, &word));
                if told.len() > SESSIONS_PER_AGENT {
                    break;
                }
            }
        };
        let asking = async {
            let mut sessions = Vec::new();
            for _ in 0..SESSIONS_PER_AGENT {
                sessions.push(board.call("a1").await.expect("a place"));
            }
            assert_eq!(refused(&board, "a1").await.reason(), Reason::TooManyRequests);
            sessions.pop();
            assert!(board.call("a1").await.is_ok());
        };
        tokio::join!(serving, asking);
    }

    #[tokio::test]
    async fn attachments_of_one_agent_are_bounded() {
        let board = board();
        let mut all: Vec<Attachment> =
            (0..=ATTACHMENTS_MAX).map(|_| board.attach("a1", 1).expect("attached")).collect();
        assert_eq!(all[0].words.recv().await, None, "the oldest has given way");
        assert!(all[1].words.try_recv().is_err_and(|it| it == mpsc::error::TryRecvError::Empty));
        drop(all);
        assert_eq!(attached(&board), 0);
    }
}
