//! What sessions taught, as far as the operator has a say in it.

use crate::Kernel;
use world::event::LessonForgotten;
use world::{Code, LessonId, Pid, Refusal, Stop};

impl Kernel {
    /// Forgets lessons, all of them or, where one is not there, none.
    pub async fn forget_lessons(&self, lessons: Vec<LessonId>, by: &str, reason: String) -> Result<(), Stop> {
        let by = by.to_owned();
        let pending = self.ledger.commit(|world, _| match lessons.iter().find(|lesson| !world.lessons.contains_key(lesson)) {
            Some(missing) => (Vec::new(), Err(Refusal::new(Code::NotFound, format!("there is no lesson `{missing}`")))),
            None => (vec![LessonForgotten { pid: Pid::KERNEL, task: None, lessons, by, reason }.into()], Ok(())),
        })?;
        Ok(pending.durable().await??)
    }
}
