//! Learning rates, beside PyTorch's.

use crate::{golden, number};
use extensor::Result;
use extensor::optim::schedule::{OneCycle, Plateau, PlateauState, Schedule};

const BASE: f64 = 0.2;

fn schedule(name: &str) -> Result<Schedule> {
    let cycle = OneCycle::new(0.5, 60);
    match name {
        "constant" => Schedule::constant(BASE),
        "step" => Schedule::step(BASE, 7, 0.3),
        "multi step" => Schedule::multi_step(BASE, &[20, 5, 6], 0.2),
        "exponential" => Schedule::exponential(BASE, 0.93),
        "cosine" => Schedule::cosine(BASE, 25, 0.01),
        "cosine restarts" => Schedule::cosine_restarts(BASE, 6, 2, 0.02),
        "cosine restarts even" => Schedule::cosine_restarts(BASE, 9, 1, 0.0),
        "one cycle" => Schedule::one_cycle(0.5, 60),
        "one cycle linear" => Schedule::one_cycle_with(OneCycle {
            rise: 0.4,
            cosine: false,
            div_factor: 10.0,
            final_div_factor: 100.0,
            ..cycle
        }),
        "one cycle three phases" => {
            Schedule::one_cycle_with(OneCycle { rise: 0.4, three_phase: true, ..cycle })
        }
        "warm-up cosine" => Schedule::cosine(BASE, 50, 0.0)?.warm_up(10, 0.1),
        "warm-up exponential" => Schedule::exponential(BASE, 0.9)?.warm_up(8, 0.25),
        _ => panic!("no schedule {name}"),
    }
}

fn plateau(name: &str) -> Result<Plateau> {
    let new = Plateau::new(BASE)?;
    match name {
        "plateau" => new.patience(2).factor(0.5),
        "plateau cooldown" => new.factor(0.3)?.patience(1).cooldown(3).min_lr(0.01),
        "plateau rising" => new.rising().factor(0.5)?.patience(3).threshold(0.05),
        "plateau absolute" => new.absolute_threshold(0.2)?.patience(1).factor(0.7),
        _ => panic!("no plateau {name}"),
    }
}

#[track_caller]
fn same(name: &str, step: usize, ours: f64, theirs: f64) {
    assert!(
        (ours - theirs).abs() <= 1e-11 * theirs.abs() + 1e-15,
        "{name} {step}: {ours} {theirs}"
    );
}

#[test]
fn every_schedule_has_the_values_of_pytorchs() -> Result<()> {
    let golden = golden();
    let all = golden["schedules"].as_object().unwrap();
    assert_eq!(all.len(), 12);
    for (name, rates) in all {
        let schedule = schedule(name)?;
        let rates = rates.as_array().unwrap();
        assert_eq!(rates.len(), 60);
        for (step, rate) in rates.iter().enumerate() {
            same(name, step, schedule.lr(step as u64), number(rate));
        }
    }
    Ok(())
}

#[test]
fn a_plateau_has_the_values_of_pytorchs_and_survives_being_saved() -> Result<()> {
    let golden = golden();
    let all = golden["plateaus"].as_object().unwrap();
    assert_eq!(all.len(), 4);
    for (name, rates) in all {
        let mut now = plateau(name)?;
        let mut changes = 0;
        for (step, rate) in rates.as_array().unwrap().iter().enumerate() {
            same(name, step, now.lr(), number(rate));
            let t = step as f64;
            let next = now.observe(2.0 / (1.0 + t) + 0.3 * (2.0 * t).cos());
            changes += usize::from(next.lr() != now.lr());
            let state: PlateauState = next.state().to_string().parse()?;
            assert_eq!(state, next.state());
            now = plateau(name)?.with_state(state);
            assert_eq!(now, next);
        }
        assert!(changes > 0, "{name}");
    }
    Ok(())
}

#[test]
fn a_schedule_goes_on_after_its_end_and_far_out() -> Result<()> {
    let cycle = Schedule::one_cycle(0.5, 60)?;
    assert_eq!(cycle.lr(59), cycle.lr(1 << 60));
    let restarts = Schedule::cosine_restarts(1.0, 10, 1, 0.0)?;
    assert_eq!(restarts.lr(10 * (1 << 58)), 1.0);
    let cosine = Schedule::cosine(1.0, 10, 0.0)?;
    assert_eq!(cosine.lr(20 * (1 << 58)), 1.0);
    assert!(Schedule::cosine_restarts(1.0, u64::MAX, 2, 0.0)?.lr(u64::MAX) >= 0.0);
    assert_eq!(Schedule::constant(1.0)?.warm_up(0, 0.0)?.lr(0), 1.0);
    assert_eq!(Schedule::one_cycle(1.0, 1)?.lr(0), 4e-6);
    Ok(())
}

#[test]
fn a_schedule_that_makes_no_sense_is_an_error() {
    let message = |result: Result<Schedule>| result.unwrap_err().to_string();
    let expected = "schedule: lr is NaN, expected a finite number of at least 0";
    assert_eq!(message(Schedule::constant(f64::NAN)), expected);
    assert!(Schedule::step(0.1, 0, 0.5).is_err());
    assert!(Schedule::cosine(0.1, 0, 0.0).is_err());
    assert!(Schedule::cosine(-0.1, 5, 0.0).is_err());
    assert!(Schedule::cosine_restarts(0.1, 5, 0, 0.0).is_err());
    assert!(Schedule::one_cycle(0.1, 0).is_err());
    let rise = OneCycle { rise: 0.7, three_phase: true, ..OneCycle::new(1.0, 10) };
    assert_eq!(
        message(Schedule::one_cycle_with(rise)),
        "schedule: rise is 0.7, expected from 0 to 0.5"
    );
    assert!(Schedule::constant(1.0).and_then(|s| s.warm_up(3, -1.0)).is_err());
    assert!(Plateau::new(0.1).and_then(|p| p.factor(1.0)).is_err());
    for text in ["", "lr=0.1", "lr=nan best=1 bad=0 cooling=0", "lr=1 best=1 bad=0 cooling=0 x"] {
        let error = text.parse::<PlateauState>().unwrap_err().to_string();
        assert!(error.contains("the state of a plateau"), "{error}");
    }
}
