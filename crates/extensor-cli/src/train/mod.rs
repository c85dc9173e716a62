//! `extensor train`: a network learns, and everything about it can be found in one folder.

pub mod config;
pub mod data;
pub mod evaluate;
mod gradient;
pub mod network;
pub mod pictures;
pub mod progress;
pub mod ranks;
pub mod recipe;
pub mod report;
pub mod saved;

use config::Settings;
use data::Data;
use extensor::data::Loader;
use extensor::distributed::{Group, Order};
use extensor::io::{atomic, safetensors};
use extensor::optim::Optimizer;
use extensor::train::metrics::JsonLines;
use extensor::train::tensorboard::EventFile;
use extensor::train::{Directory, End, FitOptions, Plan, State, Trainer};
use extensor::{Key, interrupt};
use network::Network;
use progress::Progress;
use ranks::{Failed, Silent};
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

/// The exit code of a rank for whose error another rank has words, or had them.
const FAILED: u8 = 2;

/// Runs the command; the exit code.
pub fn run(arguments: &Arguments) -> Result<u8, String> {
    let Some(group) = ranks::group()? else {
        return Ok(FAILED);
    };
    match train(arguments, &group) {
        Ok(code) => Ok(code),
        Err(failed) => ranks::explain(&group, failed).map_or(Ok(FAILED), Err),
    }
}

fn train(arguments: &Arguments, group: &Group) -> Result<u8, Failed> {
    let mut settings = arguments.settings.clone();
    if let Some(path) = &arguments.config {
        settings = settings.over(Settings::read(path)?);
    }
    if settings.resume.is_some() && settings.out.is_some() {
        return Err("--resume goes on in the folder it names: leave out --out".to_string().into());
    }
    if let Some(folder) = &settings.resume {
        // The others need not see the folder.
        let before = match group.is_first() {
            true => saved::newest(folder)?.settings.text()?,
            false => String::new(),
        };
        settings = settings.over(Settings::parse(&ranks::of_first(group, &before)?)?);
    } else if settings.parts.is_none() {
        settings.parts = Some(group.size() as u64);
    }
    let model = settings.model.clone().unwrap_or_else(|| match settings.data.as_deref() {
        Some(name) if name == "shakespeare" || name.ends_with(".txt") => "gpt".into(),
        Some(name) if name.ends_with(".csv") || name.ends_with(".tsv") => "mlp".into(),
        _ => "lenet5".into(),
    });
    let settings = settings.over(recipe::defaults(&model));
    valid(&settings)?;
    if let Some(threads) =
        settings.threads.map(|n| n as usize).or_else(|| ranks::threads(&settings))
    {
        extensor::threads::set(threads);
    }
    let data = Data::load(&settings)?;
    ranks::expect_same(group, &settings, &data)?;
    Session::prepare(settings, data, group)?.run()
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
    state: State<Network>,
    group: Group,
    /// The name of its folder.
    folder: String,
    /// Where the run is, on the first rank.
    place: Option<Place>,
}

/// The folder of a run.
struct Place {
    folder: PathBuf,
    directory: Directory,
    resumed: bool,
    notes: Vec<String>,
}

impl Session {
    fn prepare(settings: Settings, data: Data, group: &Group) -> Result<Session, Failed> {
        let [model_key, data_key, key] = Key::new(settings.seed.unwrap_or(0)).split();
        let model = Network::new(&settings, &data.task, model_key)?;
        let batch = settings.batch.unwrap_or(64).min(data.train.len() as u64) as usize;
        let loader = Loader::new(data.train.clone(), batch.max(1), data_key)?;
        let loader = loader.shuffle(true).drop_last(true);
        let plan = recipe::plan(&settings, &loader);
        let optimizer = recipe::optimizer(&settings);
        let mut state = recipe::state(&settings, model, &*optimizer, key)?;
        let mut place = None;
        if group.is_first() {
            let found = Place::take(&settings, &data, state)?;
            state = found.0;
            place = Some(found.1);
        }
        if settings.resume.is_some() && group.size() > 1 {
            // The others need not see the folder.
            let bytes = if group.is_first() { state.contents().to_bytes()? } else { Vec::new() };
            let bytes = group.broadcast_bytes(&bytes, 0)?;
            if !group.is_first() {
                state = state.load(&safetensors::parse(bytes)?)?;
            }
        }
        let folder =
            place.as_ref().map_or(String::new(), |place| place.folder.display().to_string());
        let folder = ranks::of_first(group, &folder)?;
        Ok(Session { settings, data, loader, plan, state, group: group.clone(), folder, place })
    }

    fn run(self) -> Result<u8, Failed> {
        let Session { settings, data, loader, plan, state, group, folder, place } = self;
        if settings.check_gradients == Some(true) {
            let right = !group.is_first() || gradient::check(&state, &loader)?;
            if !group.all_gather_bytes(&[u8::from(right)])?.concat().iter().all(|&byte| byte == 1) {
                return Ok(1);
            }
        }
        let schedule = recipe::schedule(&settings, plan.steps)?;
        let trainer = Trainer::from_state(state, recipe::optimizer(&settings)).schedule(schedule);
        let trainer = trainer.policy(recipe::policy(&settings)).group(&group);
        let mut trainer = trainer.statistics(recipe::statistics(&settings));
        trainer.compiled = settings.compile == Some(true);
        if settings.fastest == Some(true) {
            trainer = trainer.order(Order::Fastest);
        }
        if settings.shard == Some(true) {
            trainer = trainer.sharded()?;
        }
        let says = place.is_some().then_some("finishing the step, then saving");
        let stop = listen(says)?;
        let Some(place) = place else {
            let mut silent = Silent(stop);
            let options = FitOptions::new(plan).hooks(&mut silent);
            let ended = trainer.fit(&loader, evaluate::loss, options);
            let end = ended.map_err(|error| diverged(error, &settings, &folder))?;
            return Ok(if end == End::Stopped { INTERRUPTED } else { 0 });
        };
        let watch = Watch { settings: &settings, data, plan, stop };
        place.run(trainer, &loader, watch)
    }
}

/// What the first rank needs to show a run.
struct Watch<'a> {
    settings: &'a Settings,
    data: Data,
    plan: Plan,
    stop: Arc<AtomicBool>,
}

/// An error of training with what to do about it.
fn diverged(error: extensor::Error, settings: &Settings, folder: &str) -> Failed {
    match error {
        error @ extensor::Error::Diverged { .. } => Failed::Together(format!(
            "{error}\nthe model as it was before that step is in {}; go on with a smaller learning rate: extensor train --resume {folder} --lr {}",
            checkpoints(Path::new(folder)).display(),
            settings.lr.unwrap_or(1e-3) / 10.0
        )),
        error => error.into(),
    }
}

impl Place {
    /// The folder of the settings, made this process's own, and the state that is in it if a run is resumed.
    fn take(
        settings: &Settings,
        data: &Data,
        mut state: State<Network>,
    ) -> Result<(State<Network>, Place), Failed> {
        let mut notes = Vec::new();
        let keep = settings.keep.unwrap_or(3) as usize;
        // From here on the folder is this process's own.
        let claim = |folder: &Path| -> Result<Directory, Failed> {
            let directory = Directory::open(checkpoints(folder), keep)?;
            directory.claim()?;
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
                    return Err(Failed::Own(format!(
                        "{0} holds a run already: go on with --resume {0}, or choose another --out",
                        folder.display()
                    )));
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
        let resumed = settings.resume.is_some();
        Ok((state, Place { folder, directory, resumed, notes }))
    }

    fn run(
        self,
        mut trainer: Trainer<Network, Box<dyn Optimizer<Network>>>,
        loader: &Loader,
        watch: Watch<'_>,
    ) -> Result<u8, Failed> {
        let Place { folder, directory, resumed, notes } = self;
        let Watch { settings, data, plan, stop } = watch;
        let step = trainer.state.step;
        let (metrics, events) = if resumed {
            directory.forget_after(step)?;
            let metrics = JsonLines::resume(&folder.join("metrics.jsonl"), step);
            (metrics, EventFile::resume(&folder.join("tensorboard"), step))
        } else {
            let metrics = JsonLines::create(&folder.join("metrics.jsonl"));
            (metrics, EventFile::create(&folder.join("tensorboard")))
        };
        // Where a run is and how it is computed are no part of what it computes.
        let config = settings.of_results().text()?;
        atomic::write(folder.join("config.toml"), |f| f.write_all(config.as_bytes()))?;

        let (metrics, events) = (metrics?, events?);
        let flag = stop.clone();
        let mut progress =
            Progress::new(settings, config, data.clone(), &plan, step, metrics, events, flag);
        for note in notes {
            progress.say(&note);
        }
        let ranks = trainer.ranks().size();
        progress.say(&report::head(settings, &data, &trainer.state, &plan, ranks));
        let started = Instant::now();
        progress.start();
        let options = FitOptions::new(plan).directory(&directory).hooks(&mut progress);
        let ended = trainer.fit(loader, evaluate::loss, options);
        progress.finish();
        let again = format!("extensor train --resume {}", folder.display());
        let shown = folder.display().to_string();
        let end = ended.map_err(|error| diverged(error, settings, &shown))?;
        let state = trainer.state;
        if end == End::Stopped {
            let step = state.step;
            progress.output.line(&format!("stopped after step {step}; go on with: {again}"));
            progress.output.finish()?;
            return Ok(INTERRUPTED);
        }
        let mut finish =
            || report::finish(settings, &state, &folder, &directory, &mut progress, started, end);
        let stopped = || stop.load(Ordering::Relaxed);
        let finished = interrupt::watch(&stopped, || Ok(finish()));
        match finished.map_err(|error| error.to_string()).and_then(|done| done) {
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

/// A flag that Ctrl-C sets, having said what is done then, if anything is to be said; a second Ctrl-C ends the
/// process at once.
pub(crate) fn listen(then: Option<&'static str>) -> Result<Arc<AtomicBool>, String> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    let handler = move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(INTERRUPTED));
        }
        use std::io::Write;
        if let Some(then) = then {
            // Nobody may be there to read it.
            let _ = writeln!(std::io::stderr(), "\n{then} (once more: at once)");
        }
    };
    ctrlc::set_handler(handler).map_err(|error| format!("cannot listen for Ctrl-C: {error}"))?;
    Ok(stop)
}
