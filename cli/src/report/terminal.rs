//! What the user's terminal shows: its width, whether it has colours, and how much is wanted of what is not a result.

use std::fs::File;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::sync::OnceLock;

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};

/// Flags about output, which every verb has.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Output")]
pub(crate) struct Terminal {
    /// When to use colours. `auto` is on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: When,
    /// Do not fit tables into the terminal: all columns, a row a line, as into a pipe
    #[arg(long, global = true)]
    wide: bool,
    /// Show on stderr what is otherwise silent: where plugins are looked for, and what backends log
    #[arg(short, long, global = true)]
    verbose: bool,
    /// Show nothing on stderr but errors: no warnings, no notes, no progress
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
}

/// When colours are used.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
enum When {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// A meaning that has a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// As it should be.
    Good,
    /// Works, and could be better.
    Warning,
    /// Wrong, or missing.
    Bad,
    /// A heading, or what matters most.
    Strong,
    /// A remedy.
    Hint,
}

static TERMINAL: OnceLock<Terminal> = OnceLock::new();

impl Terminal {
    /// From here on, output is as these flags say.
    pub(crate) fn use_it(self) {
        match self.color {
            When::Auto => ColorChoice::Auto,
            When::Always => ColorChoice::Always,
            When::Never => ColorChoice::Never,
        }
        .write_global();
        // Set once, by `main`.
        let _ = TERMINAL.set(self);
    }
}

/// Whether more is wanted on stderr.
pub(crate) fn verbose() -> bool {
    TERMINAL.get().is_some_and(|it| it.verbose)
}

/// Whether nothing is wanted on stderr but errors.
pub(crate) fn quiet() -> bool {
    TERMINAL.get().is_some_and(|it| it.quiet)
}

/// Where results go, once everything else that is printed to the standard output goes to the standard error.
static KEPT: OnceLock<File> = OnceLock::new();

/// Keeps the standard output for results: what a backend prints while it runs would get between them, and goes to the standard
/// error from here on.
pub(crate) fn keep_stdout() {
    if KEPT.get().is_some() {
        return;
    }
    let Ok(out) = std::io::stdout().as_fd().try_clone_to_owned() else { return };
    if rustix::stdio::dup2_stdout(std::io::stderr()).is_ok() {
        let _ = KEPT.set(File::from(out));
    }
}

/// Where results go, if that is not the standard output.
pub(super) fn kept() -> Option<&'static File> {
    KEPT.get()
}

/// The columns of the terminal that results go to; `None` where they go elsewhere, or all is wanted.
pub(crate) fn width() -> Option<usize> {
    let wide = TERMINAL.get().is_none_or(|it| it.wide);
    let size = || match kept() {
        None => terminal_size::terminal_size_of(std::io::stdout()),
        Some(file) => terminal_size::terminal_size_of(file),
    };
    if wide { None } else { size().map(columns) }
}

/// The same of the terminal that errors go to.
pub(crate) fn width_of_errors() -> Option<usize> {
    terminal_size::terminal_size_of(std::io::stderr()).map(columns)
}

fn columns((width, _): (terminal_size::Width, terminal_size::Height)) -> usize {
    width.0.into()
}

/// Whether stderr shows progress.
pub(crate) fn shows_progress() -> bool {
    std::io::stderr().is_terminal() && !quiet()
}

/// The text in the colour of that meaning, where results have colours.
pub(crate) fn toned(tone: Tone, text: &str) -> String {
    // Unit tests compare plain text, wherever they run.
    let choice = || kept().map_or_else(|| AutoStream::choice(&std::io::stdout()), AutoStream::choice);
    let colours = TERMINAL.get().is_some() && choice() != ColorChoice::Never;
    paint(tone, text, colours)
}

/// The same for errors.
pub(crate) fn toned_error(tone: Tone, text: &str) -> String {
    let colours = TERMINAL.get().is_some() && AutoStream::choice(&std::io::stderr()) != ColorChoice::Never;
    paint(tone, text, colours)
}

fn paint(tone: Tone, text: &str, colours: bool) -> String {
    if !colours || text.is_empty() {
        return text.to_owned();
    }
    let colour = |colour: AnsiColor| Style::new().fg_color(Some(colour.into()));
    let style = match tone {
        Tone::Good => colour(AnsiColor::Green),
        Tone::Warning => colour(AnsiColor::Yellow).bold(),
        Tone::Bad => colour(AnsiColor::Red).bold(),
        Tone::Strong => Style::new().bold(),
        Tone::Hint => colour(AnsiColor::Cyan),
    };
    format!("{style}{text}{style:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_there_where_they_are_wanted() {
        assert_eq!(paint(Tone::Good, "ok", true), "\u{1b}[32mok\u{1b}[0m");
        assert_eq!(paint(Tone::Bad, "no", true), "\u{1b}[1m\u{1b}[31mno\u{1b}[0m");
        assert_eq!(paint(Tone::Good, "ok", false), "ok");
        assert_eq!(paint(Tone::Good, "", true), "");
    }
}
