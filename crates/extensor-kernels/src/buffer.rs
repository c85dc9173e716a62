//! Memory for numbers: aligned, recycled, and always initialised.
//!
//! Touching fresh pages costs more than the arithmetic on them, so large buffers go back to a pool
//! and are handed out again with their old contents. Memory comes from the system as zeros, so every
//! byte of a buffer is initialised at all times and its slices are sound without `MaybeUninit`.
//! With the environment variable `EXTENSOR_POISON=1` a buffer is filled with `0xFF` (NaN in every
//! float type) when it is handed out: a kernel that leaves an element unwritten then shows.

mod scratch;

use crate::native::Native;
use crate::settings::settings;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// Every buffer starts at a multiple of this: a cache line, and the widest vector.
pub const ALIGNMENT: usize = 64;
/// Smaller buffers are recycled by each thread for itself, without a lock.
const POOLED: usize = 16 * 1024;
/// From here on memory is mapped directly: fresh zeros without touching them.
const MAPPED: usize = 256 * 1024;
/// The size of a huge page; larger mappings are aligned to it and ask for such pages.
const HUGE: usize = 2 * 1024 * 1024;

/// A block of initialised memory, given back when dropped.
pub struct Buffer {
    start: NonNull<u8>,
    bytes: usize,
    owner: Owner,
}

enum Owner {
    /// Allocated here with this capacity in bytes.
    Own(usize),
    /// Working memory of a task, of this capacity.
    Scratch(usize),
    /// A vector's memory, kept alive by this value.
    Kept(#[allow(dead_code)] Box<dyn Send + Sync>),
    /// Memory that others may read too, kept alive by this value: it is never written here.
    Shared(#[allow(dead_code)] Box<dyn Send + Sync>),
}

// SAFETY: a buffer owns its memory (or the value that does); shared access is read-only.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// A buffer of `bytes` bytes with arbitrary contents, or `None` if there is no such memory.
    #[inline]
    pub fn new(bytes: usize) -> Option<Buffer> {
        let mut buffer = Self::raw(bytes)?.0;
        if poisoned() {
            buffer.as_mut_slice::<u8>().fill(0xFF);
        }
        Some(buffer)
    }

    /// A buffer of `bytes` bytes with arbitrary contents for a task to compute in, or `None` if there is
    /// no such memory. With the first one there is one for each other thread that may run such a task,
    /// so that it does not depend on how tasks overlap whether the system is asked for memory.
    pub fn scratch(bytes: usize) -> Option<Buffer> {
        let capacity = capacity(bytes)?;
        if capacity > scratch::LARGEST {
            return Buffer::new(bytes);
        }
        let owner = Owner::Scratch(capacity);
        let mut buffer = Buffer { start: scratch::take(capacity)?, bytes, owner };
        if poisoned() {
            buffer.as_mut_slice::<u8>().fill(0xFF);
        }
        Some(buffer)
    }

    /// A buffer of `bytes` zero bytes, or `None` if there is no such memory.
    pub fn zeroed(bytes: usize) -> Option<Buffer> {
        let (mut buffer, fresh) = Self::raw(bytes)?;
        if !fresh {
            buffer.as_mut_slice::<u8>().fill(0);
        }
        Some(buffer)
    }

    /// The vector's own memory, not copied.
    pub fn from_vec<T: Native>(mut values: Vec<T>) -> Buffer {
        let bytes = size_of_val(values.as_slice());
        let start = NonNull::from(values.as_mut_slice()).cast();
        Buffer { start, bytes, owner: Owner::Kept(Box::new(values)) }
    }

    /// Somebody else's memory, not copied; `owner` keeps it alive and is dropped with the buffer.
    ///
    /// # Safety
    /// `bytes` bytes from `start` must be readable and initialised until `owner` is dropped. Nobody
    /// may write them while a slice of them is being read.
    pub unsafe fn shared(
        start: NonNull<u8>,
        bytes: usize,
        owner: impl Send + Sync + 'static,
    ) -> Buffer {
        Buffer { start, bytes, owner: Owner::Shared(Box::new(owner)) }
    }

    /// Whether the memory is this buffer's alone, so that it may be written.
    #[inline]
    pub fn is_exclusive(&self) -> bool {
        !matches!(self.owner, Owner::Shared(_))
    }

    /// The buffer and whether it is all zeros.
    #[inline]
    fn raw(bytes: usize) -> Option<(Buffer, bool)> {
        let capacity = capacity(bytes)?;
        let recycled =
            if capacity >= POOLED { pool().take(capacity) } else { Drawers::take(capacity) };
        if let Some(start) = recycled {
            return Some((Buffer { start, bytes, owner: Owner::Own(capacity) }, false));
        }
        if !affordable(capacity) {
            return None;
        }
        let start = allocate(capacity)?;
        Some((Buffer { start, bytes, owner: Owner::Own(capacity) }, true))
    }

    /// Its length in bytes.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its contents as numbers.
    #[inline]
    pub fn as_slice<T: Native>(&self) -> &[T] {
        self.check::<T>();
        // SAFETY: the memory is initialised, `bytes` long, aligned for T (checked), and every bit
        // pattern is a T (`Native`); it is not written while `self` is borrowed.
        unsafe {
            std::slice::from_raw_parts(self.start.as_ptr().cast(), self.bytes / size_of::<T>())
        }
    }

    /// Its contents as numbers to be changed.
    #[inline]
    pub fn as_mut_slice<T: Native>(&mut self) -> &mut [T] {
        self.check::<T>();
        assert!(self.is_exclusive(), "a buffer over somebody else's memory is written");
        // SAFETY: as in `as_slice`; `&mut self` makes the access unique (a `Kept` buffer is the
        // vector it was made from, which nobody else can reach).
        unsafe {
            std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.bytes / size_of::<T>())
        }
    }

    #[inline]
    fn check<T: Native>(&self) {
        assert!(
            self.start.as_ptr().addr().is_multiple_of(align_of::<T>()),
            "a buffer's memory is not aligned for its element type"
        );
    }
}

impl Drop for Buffer {
    #[inline]
    fn drop(&mut self) {
        if let Owner::Scratch(capacity) = self.owner {
            scratch::give(self.start, capacity);
        } else if let Owner::Own(capacity) = self.owner {
            if capacity >= POOLED {
                pool().give(self.start, capacity);
            } else if !Drawers::give(self.start, capacity) {
                // SAFETY: allocated by `allocate` with this capacity, and not used again.
                unsafe { free(self.start, capacity) };
            }
        }
    }
}

/// Up to here small capacities are multiples of [`ALIGNMENT`], above powers of two.
const FINE: usize = 1024;
/// The number of small capacities.
const DRAWERS: usize = FINE / ALIGNMENT + (POOLED / FINE).ilog2() as usize;
/// How many bytes of small buffers of one capacity a thread keeps, nearly: those of a small network's
/// whole graph, which are given back all at once.
const KEPT: usize = 128 * 1024;

/// A thread's own small buffers, by capacity.
struct Drawers([Vec<Address>; DRAWERS]);

thread_local! {
    static SMALL: RefCell<Drawers> = const { RefCell::new(Drawers([const { Vec::new() }; DRAWERS])) };
}

impl Drawers {
    fn number(capacity: usize) -> usize {
        if capacity <= FINE {
            capacity / ALIGNMENT - 1
        } else {
            FINE / ALIGNMENT + (capacity / FINE).ilog2() as usize - 1
        }
    }

    #[inline]
    fn take(capacity: usize) -> Option<NonNull<u8>> {
        let take = |drawers: &RefCell<Drawers>| {
            drawers.borrow_mut().0[Self::number(capacity)].pop().map(|Address(start)| start)
        };
        SMALL.try_with(take).ok().flatten()
    }

    /// Whether it was taken in; not when the drawer is full or the thread is ending.
    #[inline]
    fn give(start: NonNull<u8>, capacity: usize) -> bool {
        let give = |drawers: &RefCell<Drawers>| {
            let drawer = &mut drawers.borrow_mut().0[Self::number(capacity)];
            let room = drawer.len() < (KEPT / capacity).max(4);
            if room {
                drawer.push(Address(start));
            }
            room
        };
        SMALL.try_with(give).unwrap_or(false)
    }
}

impl Drop for Drawers {
    fn drop(&mut self) {
        for (number, drawer) in self.0.iter_mut().enumerate() {
            let capacity = if number < FINE / ALIGNMENT {
                (number + 1) * ALIGNMENT
            } else {
                FINE << (number + 1 - FINE / ALIGNMENT)
            };
            for Address(start) in drawer.drain(..) {
                // SAFETY: drawer `number` holds buffers of this capacity only, and this one is no
                // longer in it.
                unsafe { free(start, capacity) };
            }
        }
    }
}

/// What is really allocated for `bytes`: from [`POOLED`] on one of eight sizes for each power of
/// two, so that buffers fit each other's needs; `None` if that is no possible size.
#[inline]
fn capacity(bytes: usize) -> Option<usize> {
    if bytes <= FINE {
        return Some(bytes.next_multiple_of(ALIGNMENT).max(ALIGNMENT));
    }
    if bytes < POOLED {
        return Some(bytes.next_power_of_two());
    }
    let step = 1usize << (bytes.ilog2() - 3);
    let capacity = bytes.checked_next_multiple_of(step.max(4096))?;
    (capacity <= isize::MAX as usize - HUGE).then_some(capacity)
}

fn layout(capacity: usize) -> Option<Layout> {
    Layout::from_size_align(capacity, ALIGNMENT).ok()
}

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

/// How often memory has been asked of the system, none that fitted having been given back before.
pub fn allocations() -> usize {
    ALLOCATIONS.load(Ordering::Relaxed)
}

/// Fresh zeroed memory of a capacity that [`capacity`] returned.
fn allocate(capacity: usize) -> Option<NonNull<u8>> {
    ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    if cfg!(unix) && capacity >= MAPPED {
        return map(capacity);
    }
    // SAFETY: the layout has a size above 0.
    NonNull::new(unsafe { alloc_zeroed(layout(capacity)?) })
}

/// # Safety
/// `start` must come from `allocate(capacity)` and must not be used afterwards.
unsafe fn free(start: NonNull<u8>, capacity: usize) {
    if cfg!(unix) && capacity >= MAPPED {
        // SAFETY: the caller's promise.
        unsafe { unmap(start, capacity) }
    } else if let Some(layout) = layout(capacity) {
        // SAFETY: the caller's promise; the same layout as in `allocate`.
        unsafe { dealloc(start.as_ptr(), layout) }
    }
}

#[cfg(unix)]
fn map(capacity: usize) -> Option<NonNull<u8>> {
    let extra = if capacity >= HUGE { HUGE } else { 0 };
    let length = capacity + extra;
    // SAFETY: an anonymous private mapping touches no existing memory.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return None;
    }
    let start: *mut u8 = start.cast();
    if extra == 0 {
        return NonNull::new(start);
    }
    // Keep the part that starts at a huge page, and hand the rest back.
    let before = start.align_offset(HUGE).min(extra);
    // SAFETY: all three ranges lie in the mapping just made, at page boundaries; the advice changes
    // nothing but the size of pages.
    unsafe {
        let aligned = start.add(before);
        if before > 0 {
            libc::munmap(start.cast(), before);
        }
        if extra > before {
            libc::munmap(aligned.add(capacity).cast(), extra - before);
        }
        #[cfg(target_os = "linux")]
        libc::madvise(aligned.cast(), capacity, libc::MADV_HUGEPAGE);
        NonNull::new(aligned)
    }
}

#[cfg(unix)]
/// # Safety
/// As for [`free`].
unsafe fn unmap(start: NonNull<u8>, capacity: usize) {
    // SAFETY: the caller's promise: this range was mapped by `map`.
    unsafe { libc::munmap(start.as_ptr().cast(), capacity) };
}

#[cfg(not(unix))]
fn map(_: usize) -> Option<NonNull<u8>> {
    None
}

#[cfg(not(unix))]
/// # Safety
/// Never called.
unsafe fn unmap(_: NonNull<u8>, _: usize) {}

fn poisoned() -> bool {
    settings().poison
}

/// Free buffers by capacity, each with the moment it came back.
struct Pool {
    shelves: Mutex<Shelves>,
    limit: AtomicUsize,
}

#[derive(Default)]
struct Shelves {
    /// (capacity, buffers: oldest first)
    shelves: Vec<(usize, VecDeque<(u64, Address)>)>,
    held: usize,
    clock: u64,
}

struct Address(NonNull<u8>);
// SAFETY: a free buffer belongs to the pool alone.
unsafe impl Send for Address {}

fn pool() -> &'static Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    POOL.get_or_init(|| Pool {
        shelves: Mutex::default(),
        limit: AtomicUsize::new(default_limit()),
    })
}

/// A quarter of the machine's memory, or what `EXTENSOR_POOL_MIB` says.
fn default_limit() -> usize {
    settings().pool_mib.map_or_else(|| physical_memory() / 4, |mib| mib.saturating_mul(1 << 20))
}

/// From this size on a buffer is compared with the memory that there is.
const WEIGHED: usize = 1 << 30;

/// Whether the machine has so much memory to give. It would often map more, and then end the process
/// that writes to it.
#[inline]
pub fn affordable(capacity: usize) -> bool {
    if capacity < WEIGHED || capacity <= available_memory() {
        return true;
    }
    // What is kept for reuse may be what is missing.
    let pool = pool();
    pool.shelves.lock().unwrap_or_else(|e| e.into_inner()).shrink(0);
    capacity <= available_memory()
}

/// Bytes that can be had: of the machine, or of what its limits leave to this process.
fn available_memory() -> usize {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let free = read("/proc/meminfo").and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        let kib: usize = line.split_whitespace().next()?.parse().ok()?;
        Some(kib.saturating_mul(1024))
    });
    let limit = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        .into_iter()
        .find_map(|path| read(path)?.trim().parse::<usize>().ok());
    free.unwrap_or_else(physical_memory).min(limit.unwrap_or(usize::MAX))
}

#[cfg(unix)]
fn physical_memory() -> usize {
    // SAFETY: sysconf only reads its argument.
    let (pages, size) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    usize::try_from(pages).unwrap_or(0).saturating_mul(usize::try_from(size).unwrap_or(0))
}

#[cfg(not(unix))]
fn physical_memory() -> usize {
    4 << 30
}

impl Pool {
    fn take(&self, capacity: usize) -> Option<NonNull<u8>> {
        let mut inner = self.shelves.lock().unwrap_or_else(|e| e.into_inner());
        let at = inner.shelves.binary_search_by_key(&capacity, |s| s.0).ok()?;
        // The newest is the most likely to be in the cache still.
        let (_, Address(start)) = inner.shelves[at].1.pop_back()?;
        inner.held -= capacity;
        Some(start)
    }

    fn give(&self, start: NonNull<u8>, capacity: usize) {
        let mut inner = self.shelves.lock().unwrap_or_else(|e| e.into_inner());
        inner.clock += 1;
        let entry = (inner.clock, Address(start));
        match inner.shelves.binary_search_by_key(&capacity, |s| s.0) {
            Ok(at) => inner.shelves[at].1.push_back(entry),
            Err(at) => inner.shelves.insert(at, (capacity, VecDeque::from([entry]))),
        }
        inner.held += capacity;
        let limit = self.limit.load(Ordering::Relaxed);
        inner.shrink(limit);
    }
}

impl Shelves {
    /// Frees what came back longest ago until at most `limit` bytes are held.
    fn shrink(&mut self, limit: usize) {
        while self.held > limit {
            let oldest = self
                .shelves
                .iter_mut()
                .filter(|s| !s.1.is_empty())
                .min_by_key(|s| s.1.front().map(|b| b.0));
            let Some((capacity, buffers)) = oldest else {
                return;
            };
            if let Some((_, Address(start))) = buffers.pop_front() {
                self.held -= *capacity;
                // SAFETY: buffers come back with the capacity they were allocated with, and this
                // one is no longer on a shelf.
                unsafe { free(start, *capacity) };
            }
        }
    }
}

/// Whether there is memory at all of these bytes: an address that somebody made up is found out, most
/// likely. (On other systems than Unix only null is.)
pub fn is_mapped(start: *const u8, bytes: usize) -> bool {
    if bytes == 0 {
        return true;
    }
    if start.is_null() || start.addr().checked_add(bytes).is_none() {
        return false;
    }
    #[cfg(unix)]
    let mapped = {
        const PAGE: usize = 4096;
        let before = start.addr() % PAGE;
        let page = start.wrapping_sub(before).cast_mut();
        // SAFETY: with MS_ASYNC nothing is read or written; what is not mapped is an error.
        let rc = unsafe { libc::msync(page.cast(), bytes.saturating_add(before), libc::MS_ASYNC) };
        // An address that is no multiple of the page size (where pages are larger) says nothing.
        rc == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ENOMEM)
    };
    #[cfg(not(unix))]
    let mapped = true;
    mapped
}

/// How many bytes of free buffers are kept for reuse right now: of tensors, not what kernels compute in.
pub fn pool_bytes() -> usize {
    pool().shelves.lock().unwrap_or_else(|e| e.into_inner()).held
}

/// Sets how many bytes of free buffers are kept for reuse, and frees what is above that, and buffers that
/// kernels' tasks share while none runs. What a thread packs the operands of products in it keeps.
pub fn set_pool_limit(bytes: usize) {
    pool().limit.store(bytes, Ordering::Relaxed);
    pool().shelves.lock().unwrap_or_else(|e| e.into_inner()).shrink(bytes);
    scratch::clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacities_hold_what_was_asked_and_waste_little() {
        for shift in 0..45 {
            for extra in [0usize, 1, 3, 1 << (shift / 2)] {
                let bytes = (1usize << shift) + extra;
                let capacity = capacity(bytes).unwrap();
                assert!(capacity >= bytes);
                let most = if bytes < POOLED { 2 * bytes + 64 } else { bytes + bytes / 8 + 4096 };
                assert!(capacity <= most, "{bytes} -> {capacity}");
                if capacity < POOLED {
                    assert!(Drawers::number(capacity) < DRAWERS);
                }
            }
        }
        assert_eq!(capacity(usize::MAX), None);
        assert_eq!(capacity(isize::MAX as usize), None);
    }

    #[test]
    fn impossible_sizes_are_none_and_not_an_abort() {
        assert!(Buffer::new(usize::MAX / 2 - 4096).is_none());
        assert!(Buffer::zeroed(1 << 60).is_none());
    }

    #[test]
    fn more_than_the_machine_has_is_refused_before_it_is_mapped() {
        let available = available_memory();
        assert!(available > 1 << 20, "{available}");
        assert!(affordable(WEIGHED - 1));
        assert!(!affordable(physical_memory().saturating_mul(2).max(WEIGHED)));
        assert!(Buffer::zeroed(physical_memory().saturating_mul(2).max(WEIGHED)).is_none());
    }

    #[test]
    fn addresses_that_were_made_up_are_found_out() {
        let values = [0u8; 100];
        assert!(is_mapped(values.as_ptr(), 100) && is_mapped(std::ptr::null(), 0));
        assert!(!is_mapped(std::ptr::null(), 1));
        assert!(!is_mapped(std::ptr::without_provenance(usize::MAX - 5), 100));
        if cfg!(unix) {
            assert!(!is_mapped(std::ptr::without_provenance(64), 8));
            assert!(!is_mapped(values.as_ptr(), 1 << 46));
        }
    }

    #[test]
    fn zeroed_is_zero_even_when_recycled() {
        for bytes in [1usize, 100, 20_000, 300_000, 5_000_000] {
            for _ in 0..3 {
                let mut buffer = Buffer::zeroed(bytes).unwrap();
                assert!(buffer.as_slice::<u8>().iter().all(|&b| b == 0));
                buffer.as_mut_slice::<u8>().fill(7);
                assert_eq!(buffer.as_slice::<u8>().as_ptr() as usize % ALIGNMENT, 0);
            }
        }
    }

    #[test]
    fn small_buffers_cross_threads_and_outlive_them() {
        let made = std::thread::spawn(|| {
            let sizes = (0..POOLED).step_by(97);
            sizes.map(|bytes| Buffer::zeroed(bytes).unwrap()).collect::<Vec<_>>()
        });
        for mut buffer in made.join().unwrap() {
            buffer.as_mut_slice::<u8>().fill(1);
        }
        for _ in 0..2 * KEPT {
            assert!(Buffer::zeroed(300).unwrap().as_slice::<u8>().iter().all(|&b| b == 0));
        }
    }

    #[test]
    fn shared_memory_is_read_in_place_and_its_owner_dropped_with_the_buffer() {
        let owner = std::sync::Arc::new(vec![1.0f32, 2.0]);
        let start = NonNull::from(&owner[0]).cast();
        // SAFETY: the clone of the owner keeps the vector, which nobody writes.
        let buffer = unsafe { Buffer::shared(start, 8, owner.clone()) };
        assert!(!buffer.is_exclusive());
        assert_eq!(buffer.as_slice::<f32>(), [1.0, 2.0]);
        assert_eq!(std::sync::Arc::strong_count(&owner), 2);
        drop(buffer);
        assert_eq!(std::sync::Arc::strong_count(&owner), 1);
    }

    #[test]
    #[should_panic(expected = "somebody else's memory")]
    fn shared_memory_cannot_be_written() {
        let owner = std::sync::Arc::new(vec![1.0f32, 2.0]);
        let start = NonNull::from(&owner[0]).cast();
        // SAFETY: as above.
        let mut buffer = unsafe { Buffer::shared(start, 8, owner) };
        buffer.as_mut_slice::<f32>()[0] = 3.0;
    }

    #[test]
    fn a_vector_becomes_a_buffer_without_a_copy() {
        let values = vec![1.0f32, 2.0, 3.0];
        let address = values.as_ptr();
        let buffer = Buffer::from_vec(values);
        assert_eq!(buffer.as_slice::<f32>(), [1.0, 2.0, 3.0]);
        assert_eq!(buffer.as_slice::<f32>().as_ptr(), address);
        assert!(Buffer::from_vec(Vec::<f64>::new()).as_slice::<f64>().is_empty());
    }
}
