//! How messages are put on the wire: as prost encodes them, into a buffer that has room from the start.
//!
//! tonic's own codec lets the buffer grow while a message is written, which for a long list means to copy it several times.

use std::marker::PhantomData;

use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, EncodeBuf, Encoder};
use tonic_prost::ProstDecoder;

/// Encodes `T`, decodes `U`.
pub struct SizedCodec<T, U> {
    messages: PhantomData<(T, U)>,
}

impl<T, U> Default for SizedCodec<T, U> {
    fn default() -> Self {
        Self { messages: PhantomData }
    }
}

impl<T, U> Codec for SizedCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = SizedEncoder<T>;
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        SizedEncoder { message: PhantomData }
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstDecoder::new(buffers())
    }
}

pub struct SizedEncoder<T> {
    message: PhantomData<T>,
}

impl<T: Message> Encoder for SizedEncoder<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, message: T, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.reserve(message.encoded_len());
        message.encode_raw(buffer);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        buffers()
    }
}

/// Small at first: most messages are.
fn buffers() -> BufferSettings {
    BufferSettings::new(1 << 10, 32 << 10)
}
