//! Who made a change: stored in each record of a commit, returned by watches and history.
//!
//! In every record and not once per revision, because compaction keeps some records of a revision and drops others.
//! Changes made through etcd's protocol have no author, and their records no room for one.

use bytes::{Buf, BufMut, Bytes};
use setpoint_types::Timestamp;

use crate::codec::{put_bytes, read_bool, read_string, skip_bytes};
use crate::hold::{Epoch, Fence, LeaseName};
use crate::varint::{get_varint, put_varint};

/// Who made a change, and in what capacity. Texts that were not given are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Author {
    /// Who was authenticated.
    pub principal: String,
    /// The field manager the request named.
    pub manager: String,
    /// The operation id as the client wrote it.
    pub operation: String,
    /// The fence the request carried.
    pub fence: Option<Fence>,
    /// The trace the request was part of.
    pub trace: String,
    /// When the leader took the write. Set by the state machine: what a command carries here is not even logged.
    pub time: Timestamp,
}

impl Author {
    /// Everything but the time.
    pub(crate) fn put(&self, out: &mut impl BufMut) {
        out.put_u8(self.fence.is_some().into());
        for text in [&self.principal, &self.manager, &self.operation, &self.trace] {
            put_bytes(out, text.as_bytes());
        }
        if let Some(fence) = &self.fence {
            fence.put(out);
        }
    }

    pub(crate) fn read(input: &mut Bytes) -> Option<Self> {
        let fenced = read_bool(input)?;
        let mut text = || read_string(input);
        let (principal, manager, operation, trace) = (text()?, text()?, text()?, text()?);
        let fence = if fenced { Some(Fence::read(input)?) } else { None };
        Some(Self { principal, manager, operation, fence, trace, time: Timestamp::default() })
    }

    /// As a record holds it, with the time.
    pub(crate) fn put_stamped(&self, out: &mut impl BufMut) {
        put_varint(out, self.time.0);
        self.put(out);
    }

    /// Passes over what `put_stamped` wrote, for whoever only wants what is behind it.
    pub(crate) fn skip_stamped(input: &mut impl Buf) -> Option<()> {
        get_varint(input)?;
        let fenced = read_bool(input)?;
        let texts = if fenced { 6 } else { 4 };
        (0..texts).try_for_each(|_| skip_bytes(input))?;
        if fenced {
            get_varint(input)?;
        }
        Some(())
    }

    pub(crate) fn read_stamped(input: &mut Bytes) -> Option<Self> {
        let time = Timestamp(get_varint(input)?);
        Some(Self { time, ..Self::read(input)? })
    }
}

impl Fence {
    pub(crate) fn put(&self, out: &mut impl BufMut) {
        self.lease.put(out);
        put_varint(out, self.epoch.0);
    }

    pub(crate) fn read(input: &mut Bytes) -> Option<Self> {
        Some(Self { lease: LeaseName::read(input)?, epoch: Epoch(get_varint(input)?) })
    }
}
