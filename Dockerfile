# One image with every program of Setpoint, FROM scratch: nothing but the programs and the libraries they need.
#
#   docker build -t setpoint:dev .
#
# Where no registry can be reached, `scripts/images` makes the same image from programs that are built already.

FROM rust:1.95-bookworm AS build
WORKDIR /src
# RocksDB is C++ and takes half an hour: a layer of its own, built again only when its version changes.
COPY rust-toolchain.toml Cargo.lock ./
COPY .cargo .cargo
COPY scripts/setup scripts/setup
RUN scripts/setup
COPY . .
RUN make build && scripts/images --tree /image

FROM scratch
COPY --from=build /image/ /
ENV PATH=/usr/local/bin
CMD ["setpointd", "--help"]
