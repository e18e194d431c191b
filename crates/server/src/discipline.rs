//! Answers about test-first.

use crate::rpc_error::rpc_error;
use kernel::Kernel;
use wire::RpcError;
use wire::method::discipline::{DisciplineSwitchParams, DisciplineView};
use workflow::discipline::{available_tools, workflow_prompt};
use world::{TaskId, WorkflowState};

pub(crate) fn show(kernel: &Kernel, id: TaskId) -> Result<DisciplineView, RpcError> {
    let task = kernel.ledger.task(id).map_err(rpc_error)?;
    let Some(workflow) = task.workflow.as_deref() else {
        return Ok(DisciplineView {
            task: id,
            mode: None,
            state: WorkflowState::Idle,
            prompt: String::new(),
            available_tools: Vec::new(),
            exemption: None,
            base: None,
            red: None,
            green: None,
            put_back: 0,
            unverified: false,
            reason: None,
        });
    };
    Ok(DisciplineView {
        task: id,
        mode: Some(workflow.mode),
        state: workflow.state,
        prompt: workflow_prompt(workflow),
        available_tools: available_tools(workflow),
        exemption: workflow.exemption.clone(),
        base: workflow.base.clone(),
        red: workflow.red.clone(),
        green: workflow.green.clone(),
        put_back: workflow.put_back,
        unverified: workflow.unverified,
        reason: None,
    })
}

pub(crate) async fn switch(kernel: &Kernel, params: DisciplineSwitchParams, by: &str) -> Result<DisciplineView, RpcError> {
    let chosen = kernel.switch_discipline(params.task, params.mode, by).await.map_err(rpc_error)?;
    Ok(DisciplineView { reason: Some(chosen.reason), ..show(kernel, params.task)? })
}
