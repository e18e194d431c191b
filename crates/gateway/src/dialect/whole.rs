//! What makes a request one that can be decided about: it is all there is to it, and names one model.

use super::{Dialect, body::Members};

impl Dialect {
    /// A request is all there is to it. What it only refers to, or what is answered later, nobody here could reserve or meter.
    pub(super) fn whole(self, members: &Members<'_>) -> Result<(), String> {
        const KEPT: &str = "refers to what the provider keeps, whose length nobody knows here; send the conversation itself";
        const LATER: &str = "has the provider answer later, where nobody meters it; leave it out";
        // One model is decided about, and its price reserved.
        const MORE: &str = "names further models, and only one is decided about; name it in `model`";
        let not: &[(&[&str], &str)] = match self {
            // In words by which Claude Code knows that it can ask again without.
            Dialect::Anthropic => &[
                (&["fallbacks"], "names further models, and only one is decided about: skep does not support the `fallbacks` parameter"),
                (&["fallback"], "names a further model, and only one is decided about: skep does not support the `fallback` parameter"),
                (&["models"], MORE),
            ],
            Dialect::Responses => &[
                (&["models"], MORE),
                (&["background"], LATER),
                (&["previous_response_id"], KEPT),
                (&["conversation"], KEPT),
                (&["prompt"], "names a prompt that the provider keeps, whose length nobody knows here; send its text"),
            ],
            Dialect::Gemini => &[(&["cachedContent", "cached_content"], KEPT)],
            Dialect::Chat => &[(&["models"], MORE)],
        };
        for (names, why) in not {
            if members.one(names)?.is_some_and(|(value, _)| !matches!(value, "null" | "false" | "\"\"" | "[]")) {
                return Err(format!("`{}` {why}", names[0]));
            }
        }
        Ok(())
    }
}
