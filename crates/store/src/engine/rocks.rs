//! Tables on disk, in RocksDB. The only file that names it.
//!
//! Writes skip RocksDB's write-ahead log: the Raft log already holds them. Atomic flush over the tables is what makes
//! the state after a crash a prefix of the batches (invariant S5); without it tables could be flushed apart.

use std::ops::ControlFlow;
use std::path::Path;

use bytes::Bytes;
use rocksdb::checkpoint::Checkpoint;
use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamily, ColumnFamilyDescriptor, CompactOptions, DB, DBCompressionType,
    Env, FlushOptions, Options, ReadOptions, WriteOptions,
};

use super::cache::RowCache;
use super::{Engine, EngineFailure, Operation, Size, Table, Visit, VisitRecord, WriteBatch};
use crate::encoding::RecordId;

/// How much memory the engine may use.
#[derive(Clone, Debug)]
pub struct RocksOptions {
    pub block_cache_bytes: usize,
    /// Rows of the `Records` table kept ready.
    pub row_cache_bytes: usize,
    /// Unflushed writes of all tables together; what a restart replays from the Raft log.
    pub write_buffer_bytes: usize,
}

impl Default for RocksOptions {
    fn default() -> Self {
        Self { block_cache_bytes: 64 << 20, row_cache_bytes: 32 << 20, write_buffer_bytes: 64 << 20 }
    }
}

impl RocksOptions {
    /// Replicas apply the same writes: with buffers of the same size all of them would flush at the same moment, and no
    /// quorum would be left that is not busy with it. Each node's buffer is up to a quarter smaller or larger.
    pub fn staggered(self, node: &str) -> Self {
        let quarter = self.write_buffer_bytes / 4;
        let step = crc32c::crc32c(node.as_bytes()) as usize % (2 * quarter).max(1);
        Self { write_buffer_bytes: self.write_buffer_bytes - quarter + step, ..self }
    }
}

pub struct RocksEngine {
    db: DB,
    records: RowCache,
    read_only: bool,
    unlogged: WriteOptions,
}

fn failure(operation: &'static str) -> impl Fn(rocksdb::Error) -> EngineFailure {
    move |source| EngineFailure::Io { operation, source: source.into() }
}

impl RocksEngine {
    /// Opens the tables in `dir`, creating them if it is new.
    pub fn open(dir: &Path, options: &RocksOptions) -> Result<Self, EngineFailure> {
        let cache = Cache::new_hyper_clock_cache(options.block_cache_bytes, 0);
        let tables = Table::ALL
            .map(|table| ColumnFamilyDescriptor::new(table.name(), table_options(table, options, &cache)));
        let db = DB::open_cf_descriptors(&database_options(options)?, dir, tables)
            .map_err(failure("open its tables"))?;
        let mut unlogged = WriteOptions::default();
        unlogged.disable_wal(true);
        Ok(Self { db, records: RowCache::new(options.row_cache_bytes), read_only: false, unlogged })
    }

    /// Opens tables only to look at them; nothing in `dir` changes.
    pub fn open_read_only(dir: &Path, options: &RocksOptions) -> Result<Self, EngineFailure> {
        let cache = Cache::new_hyper_clock_cache(options.block_cache_bytes, 0);
        let tables = Table::ALL
            .map(|table| ColumnFamilyDescriptor::new(table.name(), table_options(table, options, &cache)));
        let db = DB::open_cf_descriptors_read_only(&database_options(options)?, dir, tables, false)
            .map_err(failure("open its tables"))?;
        Ok(Self { db, records: RowCache::new(0), read_only: true, unlogged: WriteOptions::default() })
    }

    fn table(&self, table: Table) -> &ColumnFamily {
        self.db.cf_handle(table.name()).expect("every table was opened with the database")
    }

    fn sum(&self, property: &str) -> u64 {
        let read =
            |table| self.db.property_int_value_cf(self.table(table), property).ok().flatten().unwrap_or(0);
        Table::ALL.into_iter().map(read).sum()
    }
}

fn database_options(options: &RocksOptions) -> Result<Options, EngineFailure> {
    let mut database = Options::default();
    database.create_if_missing(true);
    database.create_missing_column_families(true);
    database.set_atomic_flush(true);
    database.set_db_write_buffer_size(options.write_buffer_bytes);
    database.set_max_background_jobs(2);
    database.set_max_subcompactions(1);
    database.set_bytes_per_sync(1 << 20);
    database.set_max_open_files(-1);
    database.set_avoid_unnecessary_blocking_io(true);
    database.set_keep_log_file_num(2);
    database.set_max_log_file_size(4 << 20);
    database.set_paranoid_checks(true);
    // One thread writes; without others to wait for, the plain path is the cheaper one.
    database.set_allow_concurrent_memtable_write(false);
    // Flushing and compacting must not take the processor from answering clients.
    let mut env = Env::new().map_err(failure("set up its background threads"))?;
    env.lower_thread_pool_cpu_priority();
    database.set_env(&env);
    Ok(database)
}

/// RocksDB's own choice.
const ZSTD_WINDOW: i32 = -14;
/// The quickest: at the usual level, compressing was more than half of what compaction cost.
const ZSTD_LEVEL: i32 = 1;

fn table_options(table: Table, options: &RocksOptions, cache: &Cache) -> Options {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(cache);
    blocks.set_block_size(16 << 10);
    blocks.set_format_version(6);
    blocks.set_cache_index_and_filter_blocks(true);
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
    let mut table_options = Options::default();
    table_options.set_block_based_table_factory(&blocks);
    // A flush competes with the writes that follow it and is soon merged away: it does not stop to compress.
    table_options.set_compression_per_level(&[DBCompressionType::None, DBCompressionType::Lz4]);
    table_options.set_bottommost_compression_type(DBCompressionType::Zstd);
    table_options.set_bottommost_compression_options(ZSTD_WINDOW, ZSTD_LEVEL, 0, 0, true);
    table_options.set_level_compaction_dynamic_level_bytes(true);
    table_options.set_max_write_buffer_number(3);
    table_options.set_write_buffer_size(match table {
        Table::Records => options.write_buffer_bytes,
        Table::Keys | Table::Meta => options.write_buffer_bytes / 4,
    });
    // Collected versions leave tombstones in runs; compact a file early when it holds many.
    table_options.add_compact_on_deletion_collector_factory(4096, 2048, 0.5);
    table_options
}

/// Rows that are passed over one by one on the way to the next that is wanted; beyond, looking it up costs less.
const PASSED_MAX: usize = 8;

/// What an operation takes in RocksDB's form of a batch, rounded up.
fn room_for(operation: &Operation) -> usize {
    const TAGS_AND_LENGTHS: usize = 16;
    TAGS_AND_LENGTHS
        + match operation {
            Operation::Put { key, value, .. } => key.len() + value.len(),
            Operation::Delete { key, .. } | Operation::DeleteOnce { key, .. } => key.len(),
        }
}

impl Engine for RocksEngine {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, EngineFailure> {
        if table == Table::Records
            && let Some(row) = self.records.get(key)
        {
            return Ok(Some(row));
        }
        let row = self.db.get_pinned_cf(self.table(table), key).map_err(failure("read a row"))?;
        let row = row.map(|row| Bytes::copy_from_slice(&row));
        if let (Table::Records, Some(row)) = (table, &row) {
            self.records.put(key, row.clone());
        }
        Ok(row)
    }

    fn get_many(&self, table: Table, keys: &[Vec<u8>]) -> Result<Vec<Option<Bytes>>, EngineFailure> {
        let cached = |key: &Vec<u8>| if table == Table::Records { self.records.get(key) } else { None };
        let mut rows: Vec<Option<Bytes>> = keys.iter().map(cached).collect();
        let missing: Vec<usize> = (0..keys.len()).filter(|at| rows[*at].is_none()).collect();
        if missing.is_empty() {
            return Ok(rows);
        }
        // Long answers do not go into the cache: they would empty it for one reader.
        let read =
            self.db.batched_multi_get_cf(self.table(table), missing.iter().map(|at| &keys[*at]), false);
        for (at, row) in missing.into_iter().zip(read) {
            rows[at] = row.map_err(failure("read a row"))?.map(|row| Bytes::copy_from_slice(&row));
        }
        Ok(rows)
    }

    fn visit_records(
        &self,
        ids: &mut dyn Iterator<Item = RecordId>,
        visit: &mut VisitRecord<'_>,
    ) -> Result<(), EngineFailure> {
        let mut options = ReadOptions::default();
        // Who reads this much would empty the cache for everybody else.
        options.fill_cache(false);
        let mut rows = self.db.raw_iterator_cf_opt(self.table(Table::Records), options);
        for id in ids {
            let key = id.encode();
            let mut passed = 0;
            while passed < PASSED_MAX && rows.key().is_some_and(|at| *at < key[..]) {
                rows.next();
                passed += 1;
            }
            if rows.key().is_none_or(|at| *at < key[..]) {
                rows.seek(key);
            }
            let row = rows.item().filter(|(at, _)| **at == key[..]).map(|(_, row)| row);
            if row.is_none() {
                rows.status().map_err(failure("read a row"))?;
            }
            if visit(id, row).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), EngineFailure> {
        let mut options = ReadOptions::default();
        if let Some(to) = to {
            options.set_iterate_upper_bound(to);
        }
        let mut rows = self.db.raw_iterator_cf_opt(self.table(table), options);
        rows.seek(from);
        while let Some((key, value)) = rows.item() {
            if let ControlFlow::Break(()) = visit(key, value) {
                return Ok(());
            }
            rows.next();
        }
        rows.status().map_err(failure("scan a table"))
    }

    fn write(&self, batch: WriteBatch) -> Result<(), EngineFailure> {
        let mut rows = rocksdb::WriteBatch::with_capacity_bytes(batch.operations.iter().map(room_for).sum());
        for operation in &batch.operations {
            match operation {
                Operation::Put { table, key, value } => rows.put_cf(self.table(*table), key, value),
                Operation::Delete { table, key } => rows.delete_cf(self.table(*table), key),
                Operation::DeleteOnce { table, key } => rows.single_delete_cf(self.table(*table), key),
            }
        }
        self.db.write_opt(rows, &self.unlogged).map_err(failure("write a batch"))?;
        for operation in batch.operations {
            match operation {
                Operation::Put { table: Table::Records, key, value } => self.records.put(&key, value.into()),
                Operation::Delete { table: Table::Records, key }
                | Operation::DeleteOnce { table: Table::Records, key } => self.records.remove(&key),
                _ => {}
            }
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), EngineFailure> {
        let tables = Table::ALL.map(|table| self.table(table));
        let mut options = FlushOptions::default();
        options.set_wait(true);
        self.db.flush_cfs_opt(&tables, &options).map_err(failure("flush its tables"))
    }

    fn checkpoint(&self, dir: &Path) -> Result<(), EngineFailure> {
        // A checkpoint flushes first, so unlogged writes are in it.
        Checkpoint::new(&self.db)
            .and_then(|checkpoint| checkpoint.create_checkpoint(dir))
            .map_err(failure("make a checkpoint"))
    }

    fn size(&self) -> Size {
        let memory = self.sum("rocksdb.cur-size-all-mem-tables");
        Size {
            total: self.sum("rocksdb.total-sst-files-size") + memory,
            live: self.sum("rocksdb.estimate-live-data-size") + memory,
        }
    }

    fn reclaim(&self) -> Result<(), EngineFailure> {
        let mut options = CompactOptions::default();
        options.set_exclusive_manual_compaction(false);
        for table in Table::ALL {
            self.db.compact_range_cf_opt(self.table(table), None::<&[u8]>, None::<&[u8]>, &options);
        }
        Ok(())
    }
}

impl Drop for RocksEngine {
    fn drop(&mut self) {
        if self.read_only {
            return;
        }
        // A restart then replays nothing. A failure here costs only that replay.
        if let Err(error) = self.flush() {
            tracing::warn!(error = %error, "the last flush failed; the Raft log brings it back");
        }
    }
}
