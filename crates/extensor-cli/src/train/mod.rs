//! `extensor train`: a network learns, and everything about it can be found in one folder.

pub mod config;
pub mod data;
pub mod evaluate;
mod gradient;
pub mod network;
pub mod pictures;
pub mod progress;
pub mod recipe;
pub mod report;
pub mod saved;

use config::Settings;
use data::Data;
use extensor::data::Loader;
use extensor::io::atomic;
use extensor::train::metrics::JsonLines;
use extensor::train::tensorboard::EventFile;
use extensor::train::{Directory, End, FitOptions, Plan, State, Trainer};
use extensor::{Key, interrupt};
use network::Network;
use progress::Progress;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// What to train, and how.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// A file of settings: every flag can stand in it under its name; flags count more
    #[arg(value_name = "CONFIG.toml")]
    pub config: Option<PathBuf>,
    /// The flags.
    #[command(flatten)]
    pub settings: Settings,
}

/// The exit code of a run that the user interrupted, and that can be resumed.
pub const INTERRUPTED: u8 = 130;

/// Where the checkpoints of a run are.
pub fn checkpoints(folder: &Path) -> PathBuf {
    folder.join("checkpoints")
}

/// Runs the command; the exit code.
pub fn run(arguments: &Arguments) -> Result<u8, String> {
    let mut settings = arguments.settings.clone();
    if let Some(path) = &arguments.config {
        settings = settings.over(Settings::read(path)?);
    }
    if settings.resume.is_some() && settings.out.is_some() {
        return Err("--resume goes on in the folder it names: leave out --out".into());
    }
    if let Some(folder) = &settings.resume {
        let file = saved::newest(folder)?;
        settings = settings.over(file.settings);
    }
    let model = settings.model.clone().unwrap_or_else(|| match settings.data.as_deref() {
        Some(name) if name == "shakespeare" || name.ends_with(".txt") => "gpt".into(),
        Some(name) if name.ends_with(".csv") || name.ends_with(".tsv") => "mlp".into(),
        _ => "lenet5".into(),
    });
    let settings = settings.over(recipe::defaults(&model));
    valid(&settings)?;
    if let Some(threads) = settings.threads {
        extensor::threads::set(threads as usize);
    }
    let data = Data::load(&settings)?;
    Session::prepare(settings, data)?.run()
}

/// An error for numbers that no run can have.
fn valid(settings: &Settings) -> Result<(), String> {
    let least = |name: &str, value: Option<f64>| match value {
        Some(v) if !(v.is_finite() && v >= 0.0) => {
            Err(format!("{name}: expected a finite number of at least 0, got {v}"))
        }
        _ => Ok(()),
    };
    least("lr", settings.lr)?;
    least("weight-decay", settings.weight_decay)?;
    least("clip", settings.clip)?;
    match settings.ema {
        Some(v) if !(0.0..1.0).contains(&v) => {
            Err(format!("ema: expected a number from 0 up to 1, got {v}"))
        }
        _ => Ok(()),
    }
}

/// A run that is about to start.
struct Session {
    settings: Settings,
    data: Data,
    loader: Loader,
    plan: Plan,
    folder: PathBuf,
    directory: Directory,
    state: State<Network>,
    resumed: bool,
    notes: Vec<String>,
}

impl Session {
    fn prepare(settings: Settings, data: Data) -> Result<Session, String> {
        let failed = |error: extensor::Error| error.to_string();
        let [model_key, data_key, key] = Key::new(settings.seed.unwrap_or(0)).split();
        let model = Network::new(&settings, &data.task, model_key)?;
        let batch = settings.batch.unwrap_or(64).min(data.train.len() as u64) as usize;
        let loader = Loader::new(data.train.clone(), batch.max(1), data_key).map_err(failed)?;
        let loader = loader.shuffle(true).drop_last(true);
        let plan = recipe::plan(&settings, &loader);
        let optimizer = recipe::optimizer(&settings);
        let mut state = recipe::state(&settings, model, &*optimizer, key).map_err(failed)?;
        let mut notes = Vec::new();
        let resumed = settings.resume.is_some();
        let keep = settings.keep.unwrap_or(3) as usize;
        // From here on the folder is this process's own.
        let claim = |folder: &Path| -> Result<Directory, String> {
            let directory = Directory::open(checkpoints(folder), keep).map_err(failed)?;
            directory.claim().map_err(failed)?;
            Ok(directory)
        };
        let (folder, directory) = match (&settings.resume, &settings.out) {
            (Some(folder), _) => {
                let directory = claim(folder)?;
                let found = saved::resume(folder, state, &data.task)?;
                state = found.loaded;
                notes.extend(found.skipped.iter().map(|(path, error)| {
                    format!("{} does not load, the one before it is used: {error}", path.display())
                }));
                notes.push(format!("resumed from {}, step {}", found.path.display(), found.step));
                (folder.clone(), directory)
            }
            (None, Some(folder)) => {
                let directory = claim(folder)?;
                if saved::exists(folder) {
                    return Err(format!(
                        "{0} holds a run already: go on with --resume {0}, or choose another --out",
                        folder.display()
                    ));
                }
                (folder.clone(), directory)
            }
            (None, None) => {
                let name = format!("{}-{}", settings.model.as_deref().unwrap_or("run"), data.name);
                let folder = fresh(Path::new("runs"), &name)?;
                let directory = claim(&folder)?;
                (folder, directory)
            }
        };
        Ok(Session { settings, data, loader, plan, folder, directory, state, resumed, notes })
    }

    fn run(self) -> Result<u8, String> {
        let Session { settings, data, loader, plan, folder, directory, state, resumed, notes } =
            self;
        let failed = |error: extensor::Error| error.to_string();
        let optimizer = recipe::optimizer(&settings);
        let schedule = recipe::schedule(&settings, plan.steps).map_err(failed)?;
        if settings.check_gradients == Some(true) && !gradient::check(&state, &loader)? {
            return Ok(1);
        }
        let (metrics, events) = if resumed {
            directory.forget_after(state.step).map_err(failed)?;
            let metrics = JsonLines::resume(&folder.join("metrics.jsonl"), state.step);
            (metrics, EventFile::resume(&folder.join("tensorboard"), state.step))
        } else {
            let metrics = JsonLines::create(&folder.join("metrics.jsonl"));
            (metrics, EventFile::create(&folder.join("tensorboard")))
        };
        // Where a run is and how it is computed are no part of what it computes.
        let config = Settings {
            out: None,
            resume: None,
            threads: None,
            compile: None,
            quiet: None,
            check_gradients: None,
            ..settings.clone()
        };
        let config = config.text()?;
        let write = atomic::write(folder.join("config.toml"), |f| f.write_all(config.as_bytes()));
        write.map_err(failed)?;

        let stop = listen("finishing the step, then saving")?;
        let mut progress = Progress::new(
            &settings,
            config,
            data.clone(),
            &plan,
            state.step,
            metrics.map_err(failed)?,
            events.map_err(failed)?,
            stop.clone(),
        );
        for note in notes {
            progress.say(&note);
        }
        progress.say(&report::head(&settings, &data, &state, &plan));
        let started = Instant::now();
        progress.start();
        let trainer = Trainer::from_state(state, optimizer).schedule(schedule);
        let mut trainer = trainer.policy(recipe::policy(&settings));
        trainer.compiled = settings.compile == Some(true);
        let options = FitOptions::new(plan).directory(&directory).hooks(&mut progress);
        let ended = trainer.fit(&loader, evaluate::loss, options);
        progress.finish();
        let again = format!("extensor train --resume {}", folder.display());
        let end = match ended {
            Ok(end) => end,
            Err(error @ extensor::Error::Diverged { .. }) => {
                return Err(format!(
                    "{error}\nthe model as it was before that step is in {}; go on with a smaller learning rate: {again} --lr {}",
                    checkpoints(&folder).display(),
                    settings.lr.unwrap_or(1e-3) / 10.0
                ));
            }
            Err(error) => return Err(error.to_string()),
        };
        let state = trainer.state;
        if end == End::Stopped {
            let step = state.step;
            progress.output.line(&format!("stopped after step {step}; go on with: {again}"));
            progress.output.finish()?;
            return Ok(INTERRUPTED);
        }
        let mut finish =
            || report::finish(&settings, &state, &folder, &directory, &mut progress, started, end);
        let stopped = || stop.load(Ordering::Relaxed);
        match interrupt::watch(&stopped, || Ok(finish())).map_err(failed).and_then(|done| done) {
            Err(_) if stopped() => {
                let text = format!("training is done, its report is not; that comes with: {again}");
                progress.output.line(&text);
                progress.output.finish()?;
                Ok(INTERRUPTED)
            }
            done => {
                done?;
                progress.output.finish()?;
                Ok(0)
            }
        }
    }
}

/// A new folder of this name, or of the name with a number that nobody has taken yet.
fn fresh(within: &Path, name: &str) -> Result<PathBuf, String> {
    let failed = |path: &Path, error: std::io::Error| {
        Err(format!("cannot create {}: {error}", path.display()))
    };
    if let Err(error) = std::fs::create_dir_all(within) {
        return failed(within, error);
    }
    let mut number = 1;
    loop {
        let folder = within.join(match number {
            1 => name.to_string(),
            _ => format!("{name}-{number}"),
        });
        match std::fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            Err(error) => return failed(&folder, error),
        }
    }
}

/// A flag that Ctrl-C sets, having said what is done then; a second Ctrl-C ends the process at once.
pub(crate) fn listen(then: &'static str) -> Result<Arc<AtomicBool>, String> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    let handler = move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(INTERRUPTED));
        }
        use std::io::Write;
        // Nobody may be there to read it.
        let _ = writeln!(std::io::stderr(), "\n{then} (once more: at once)");
    };
    ctrlc::set_handler(handler).map_err(|error| format!("cannot listen for Ctrl-C: {error}"))?;
    Ok(stop)
}
