//! A convolution's working memory is bounded, however many images there are. A program of its own,
//! because it counts every byte that is allocated.

use extensor_kernels::conv::{Axis, Convolve, Geometry};
use extensor_kernels::par::with_threads;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};

/// The system's allocator, counting.
struct Counting;

static NOW: AtomicIsize = AtomicIsize::new(0);
static MOST: AtomicIsize = AtomicIsize::new(0);

fn count(bytes: isize) {
    let now = NOW.fetch_add(bytes, Ordering::SeqCst) + bytes;
    MOST.fetch_max(now, Ordering::SeqCst);
}

// SAFETY: every call is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes that a call of each kernel has allocated at a time, thread's memory included.
fn peak<T: Convolve>(geometry: &Geometry, one: T) -> isize {
    let g = geometry;
    let (channels, filters) = (g.groups * g.channels, g.groups * g.filters);
    let x = vec![one; g.images * channels * g.y.input * g.x.input];
    let weight = vec![one; filters * g.channels * g.y.kernel * g.x.kernel];
    let bias = vec![one; filters];
    let mut y = vec![one; g.images * filters * g.y.output * g.x.output];
    let (mut dx, mut dweight, grad) = (x.clone(), weight.clone(), y.clone());
    let before = NOW.load(Ordering::SeqCst);
    MOST.store(before, Ordering::SeqCst);
    T::forward(g, &x, &weight, Some(&bias), &mut y);
    T::input_gradient(g, &grad, &weight, None, &mut dx);
    T::weight_gradient(g, &grad, &x, &mut dweight);
    MOST.load(Ordering::SeqCst) - before
}

#[test]
fn working_memory_is_below_64_mib_however_large_the_batch() {
    const MOST_ALLOWED: isize = 64 << 20;
    let axis = |stride| Axis::over(96, 3, stride, 1, 1).expect("an axis");
    for threads in [1, 4] {
        for (groups, channels, filters, stride) in [(1, 16, 24, 1), (1, 16, 24, 2), (16, 1, 1, 1)] {
            for images in [2, 24] {
                let (y, x) = (axis(stride), axis(stride));
                let g = Geometry { images, groups, channels, filters, z: Axis::SINGLE, y, x };
                let peak = with_threads(threads, || peak(&g, 1.0f32).max(peak(&g, half::f16::ONE)));
                assert!(peak < MOST_ALLOWED, "{peak} bytes for {g:?}");
            }
        }
    }
    // Patches of this one would take 236 MB.
    let axis = Axis::over(320, 3, 1, 1, 1).expect("an axis");
    let g = Geometry {
        images: 1,
        groups: 1,
        channels: 64,
        filters: 32,
        z: Axis::SINGLE,
        y: axis,
        x: axis,
    };
    let peak = with_threads(2, || peak(&g, 1.0f32));
    assert!(peak < MOST_ALLOWED / 2, "{peak} bytes for {g:?}");
}
