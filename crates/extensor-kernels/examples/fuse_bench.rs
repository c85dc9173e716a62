use extensor_kernels::{
    fused::fold::*, fused::*, map::*, number::*, par::*, program::*, reduce, view::*,
};
use std::time::Instant;
#[derive(Clone)]
struct T;
impl Formula<1> for T {
    #[inline(always)]
    fn f<R: Real>(&self, [a]: [R; 1]) -> R {
        a.tanh()
    }
}
#[derive(Clone)]
struct Ex;
impl Formula<1> for Ex {
    #[inline(always)]
    fn f<R: Real>(&self, [a]: [R; 1]) -> R {
        a.exp()
    }
}
#[derive(Clone)]
struct Si;
impl Formula<1> for Si {
    #[inline(always)]
    fn f<R: Real>(&self, [a]: [R; 1]) -> R {
        a.sigmoid()
    }
}
#[derive(Clone)]
struct Ch;
impl Formula<3> for Ch {
    #[inline(always)]
    fn f<R: Real>(&self, [x, a, b]: [R; 3]) -> R {
        (a * x + b).tanh() * x.sigmoid() - (-(x * x)).exp()
    }
}
fn cpu() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 * 1e6 + t.tv_nsec as f64 / 1e3
}
fn best(name: &str, n: usize, mut f: impl FnMut()) {
    f();
    let (mut b, mut w) = (f64::MAX, f64::MAX);
    for _ in 0..n {
        let (c, t) = (cpu(), Instant::now());
        f();
        b = b.min(cpu() - c);
        w = w.min(t.elapsed().as_secs_f64() * 1e6);
    }
    println!("{name:24} {b:9.1} us cpu {w:9.1} us wall");
}
fn main() {
    let threads: usize = std::env::var("T").ok().map_or(1, |x| x.parse().unwrap());
    set_threads(threads);
    let n: usize = std::env::var("N").ok().map_or(1 << 24, |x| x.parse().unwrap());
    let reps = std::env::var("REPS").ok().map_or(7, |x| x.parse().unwrap());
    let x: Vec<f32> = (0..n).map(|i| ((i * 7919 % 100_003) as f32 - 50_000.0) * 6e-5).collect();
    let mut y = vec![0f32; n];
    let mut z = vec![0f32; n];
    let shape = [n];
    let v = View::new(&x, 0, &shape, &[1]);
    let a = [1.3f32];
    let b = [0.2f32];
    let (va, vb) = (View::new(&a, 0, &shape, &[0]), View::new(&b, 0, &shape, &[0]));
    best("tanh", reps, || map::<f32, f32, 1>(&Formulas(T), [v], &mut y));
    best("exp", reps, || map::<f32, f32, 1>(&Formulas(Ex), [v], &mut y));
    best("sigmoid", reps, || map::<f32, f32, 1>(&Formulas(Si), [v], &mut y));
    best("chain as one formula", reps, || map::<f32, f32, 3>(&Formulas(Ch), [v, va, vb], &mut z));
    let chain = Bundle::record(3, |x| {
        let [x, a, b] = [x[0], x[1], x[2]];
        vec![(a * x + b).tanh() * x.sigmoid() - (-(x * x)).exp()]
    });
    let f = Fused::<f32>::new(&chain);
    let s = [Source::F32(v), Source::F32(va), Source::F32(vb)];
    best("chain fused", reps, || f.run(&s, &mut [Sink::F32(&mut y)]));
    assert!(y.iter().zip(&z).all(|(a, b)| a.to_bits() == b.to_bits()));
    let both = Bundle::record(3, |x| {
        let [x, a, b] = [x[0], x[1], x[2]];
        let t = (a * x + b).tanh();
        let s = x.sigmoid();
        let e = (-(x * x)).exp();
        let y = t * s - e;
        let one = x.lit(1.0);
        let dx = ((-e) * x + (-e) * x) * x.lit(-1.0);
        let g = (dx + t * (s * (one - s))) + (s * (one - t * t)) * a;
        vec![y, g]
    });
    let f = Fused::<f32>::new(&both);
    let mut sum = [0f32];
    let g = Groups::new(&shape, &[true]).unwrap();
    best("value+grad fused", reps, || {
        f.run_folded(
            &s,
            &mut [Sink::F32(&mut sum), Sink::F32(&mut z)],
            &[Fold::Sum { divisor: 1.0 }, Fold::Each],
            &g,
        )
    });
    let mut want = [0f32];
    reduce::float_sum(View::new(&y, 0, &shape, &[1]), &[true], &mut want);
    assert_eq!(want, sum);
    let f = Fused::<f32>::new(&chain);
    best("sum of chain", reps, || {
        f.run_folded(&s, &mut [Sink::F32(&mut sum)], &[Fold::Sum { divisor: 1.0 }], &g)
    });
    // small
    let w: Vec<f32> = (0..16).map(|i| i as f32 * 0.1 - 0.7).collect();
    let small = Bundle::record(3, |x| {
        let (w, b) = (x[1], x[2]);
        let mut y = vec![x[0]];
        for _ in 0..100 {
            let h = y[y.len() - 1];
            y.push((h * w + b).tanh());
        }
        let mut g = x[0].lit(1.0);
        for h in y[1..].iter().rev() {
            g = (g * (x[0].lit(1.0) - *h * *h)) * w;
        }
        vec![g]
    });
    println!("{} instructions", small.instructions.len());
    let f = Fused::<f32>::new(&small);
    let mut o = vec![0f32; 16];
    let sh = [16];
    let sv = View::new(&w, 0, &sh, &[1]);
    let s = [Source::F32(sv), Source::F32(sv), Source::F32(sv)];
    best("small x1000", reps * 4, || {
        for _ in 0..1000 {
            f.run(&s, &mut [Sink::F32(&mut o)])
        }
    });
    let tanh = Bundle::record(1, |x| vec![x[0].tanh()]);
    let f = Fused::<f32>::new(&tanh);
    best("one tanh of 16 x1000", reps * 4, || {
        for _ in 0..1000 {
            f.run(&s[..1], &mut [Sink::F32(&mut o)])
        }
    });
}
