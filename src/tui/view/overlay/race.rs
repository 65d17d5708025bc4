//! The box that a race is shown in. Must never run one.

use ratatui::Frame;
use ratatui::text::Line;

use crate::tui::state::ScreenState;
use crate::tui::theme::Styles;
use crate::tui::view::areas::Areas;
use crate::tui::view::frames::{centred, panel};
use crate::tui::view::race;

pub(super) fn draw(frame: &mut Frame<'_>, areas: &Areas, state: &ScreenState, styles: &Styles) {
    let Some((run, _)) = &state.race else { return };
    let area = areas.body;
    let rect = centred(frame, areas, area, area.width.min(124), area.height.min(26));
    let (take, close) = (state.keys.take(), state.keys.close());
    let foot = match run.measuring() {
        true => format!(" {close} stop "),
        false if run.playing(state.now) => format!(" {take} skip · {close} close "),
        false => format!(" {take} play again · {close} close "),
    };
    let foot = Line::styled(foot, styles.dim).right_aligned();
    let block = panel(" race: the last question, twice ", true, styles).title_bottom(foot);
    let inner = block.inner(rect);
    frame.render_widget(block, rect);
    race::draw(frame.buffer_mut(), inner, run, run.elapsed(state.now), styles);
}
