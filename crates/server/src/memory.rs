//! What sessions taught, as the operator sees and forgets it.

use crate::rpc_error::{fault_error, rpc_error};
use kernel::Kernel;
use std::collections::BTreeSet;
use wire::method::memory::{LessonMatch, LessonView, MemoryForgetParams, MemoryListResult, MemoryWhyResult};
use wire::{ErrorCode, RpcError};
use world::{Code, Event, Lesson, LessonId, Stop};

pub(crate) fn lesson_view(id: LessonId, lesson: &Lesson) -> LessonView {
    LessonView {
        lesson: id,
        summary: lesson.summary.clone(),
        ok: lesson.ok,
        text: lesson.text.clone(),
        tools: lesson.tools.clone(),
        task: lesson.task,
        learned_ms: lesson.learned_ms,
        recalled: lesson.recalled,
        recalled_ms: lesson.recalled_ms,
        told_to: Vec::new(),
    }
}

pub(crate) fn list(kernel: &Kernel) -> MemoryListResult {
    let lessons = kernel.ledger.look(|world| world.lessons.iter().rev().map(|(id, lesson)| lesson_view(*id, lesson)).collect());
    MemoryListResult { lessons }
}

fn unknown(id: LessonId) -> RpcError {
    RpcError::new(ErrorCode::NotFound, format!("there is no lesson `{id}`")).fix("`skep memory list` shows them")
}

/// One lesson, with the sessions that were told of it.
pub(crate) fn show(kernel: &Kernel, id: LessonId) -> Result<LessonView, RpcError> {
    let found = kernel.ledger.look(|world| world.lessons.get(&id).map(|lesson| lesson_view(id, lesson)));
    let mut view = found.ok_or_else(|| unknown(id))?;
    let recalled = journal::Filter { kinds: vec!["lesson.recalled".to_owned()], ..journal::Filter::default() };
    let mut told = BTreeSet::new();
    for record in kernel.ledger.read(&recalled).map_err(fault_error)? {
        if let Event::LessonRecalled(e) = ledger_event(&record)?
            && e.lessons.contains(&id)
        {
            told.extend(e.task);
        }
    }
    view.told_to = told.into_iter().collect();
    Ok(view)
}

fn ledger_event(record: &journal::Record) -> Result<Event, RpcError> {
    serde_json::from_str(&record.line)
        .map_err(|error| RpcError::new(ErrorCode::Internal, format!("record {} cannot be read", record.seq)).why(error.to_string()))
}

pub(crate) async fn forget(kernel: &Kernel, params: MemoryForgetParams, by: &str) -> Result<MemoryListResult, RpcError> {
    let MemoryForgetParams { lessons, reason } = params;
    let missing = |stop: Stop| match stop {
        Stop::Refused(refusal) if refusal.code == Code::NotFound => RpcError::from(refusal).fix("`skep memory list` shows them"),
        stop => rpc_error(stop),
    };
    kernel.forget_lessons(lessons, by, reason).await.map_err(missing)?;
    Ok(list(kernel))
}

/// What a planner would be told for a text.
pub(crate) fn why(kernel: &Kernel, text: &str) -> MemoryWhyResult {
    kernel.ledger.look(|world| {
        let ranked = workflow::rank_lessons(text, &world.lessons);
        let one = |ranked: workflow::RankedLesson| {
            let lesson = lesson_view(ranked.id, world.lessons.get(&ranked.id)?);
            Some(LessonMatch { lesson, score: ranked.score, words: ranked.words.into_iter().map(|(word, _)| word).collect() })
        };
        let matches = ranked.into_iter().take(workflow::RECALLED_MAX).filter_map(one).collect();
        MemoryWhyResult { matches, of: world.lessons.len() as u64 }
    })
}
