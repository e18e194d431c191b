//! The shape of a tree: which nodes stand where, without what is only there for types.
//!
//! Two trees with the same shape mean the same: kind, depth and first token of every node, from top to bottom, leave no choice.

use oxc_ast::AstKind;
use oxc_ast::ast::Program;
use oxc_ast_visit::Visit;
use oxc_span::{GetSpan, Span};

/// One node: its kind, how deep it is, and its first byte.
pub(super) struct SyntaxNode {
    kind: u8,
    depth: u32,
    start: u32,
}

impl SyntaxNode {
    /// Its kind, its depth, and its first token by a function that finds the token at a byte.
    pub(super) fn at_token(&self, token: impl Fn(u32) -> usize) -> (u8, u32, usize) {
        (self.kind, self.depth, token(self.start))
    }
}

/// The nodes of a program, except those within `gone`, which is sorted and does not overlap.
pub(super) fn of(program: &Program<'_>, gone: &[Span]) -> Vec<SyntaxNode> {
    let mut walk = Walk { gone, nodes: Vec::new(), depth: 0, within: 0 };
    walk.visit_program(program);
    walk.nodes
}

/// Where two shapes begin to differ. Both are read by `starts`, the first bytes of the tokens that are left: a node whose first
/// tokens are gone begins with the next one.
pub(super) fn first_difference(wanted: &[SyntaxNode], left: &[SyntaxNode], starts: &[u32]) -> Option<usize> {
    let begins = |node: &SyntaxNode| starts.get(starts.partition_point(|start| *start < node.start)).copied();
    let same = |(one, other): (&SyntaxNode, &SyntaxNode)| (one.kind, one.depth, begins(one)) == (other.kind, other.depth, begins(other));
    let differs = wanted.iter().zip(left).position(|pair| !same(pair));
    let at = match differs {
        Some(at) => at,
        None if wanted.len() == left.len() => return None,
        None => wanted.len().min(left.len()),
    };
    let node = wanted.get(at).or(left.get(at)).or(wanted.last());
    Some(node.map_or(0, |node| node.start as usize))
}

struct Walk<'g> {
    gone: &'g [Span],
    nodes: Vec<SyntaxNode>,
    depth: u32,
    /// How many of the nodes around the current one are gone.
    within: u32,
}

impl Walk<'_> {
    fn is_gone(&self, span: Span) -> bool {
        let next = self.gone.partition_point(|gone| gone.start <= span.start);
        next.checked_sub(1).is_some_and(|at| span.end <= self.gone[at].end)
    }
}

/// Nodes that only types need, that a blank may leave or add, or whose place a moved parenthesis changes.
fn is_transparent(kind: &AstKind<'_>) -> bool {
    matches!(
        kind,
        AstKind::TSAsExpression(_)
            | AstKind::TSSatisfiesExpression(_)
            | AstKind::TSNonNullExpression(_)
            | AstKind::TSTypeAssertion(_)
            | AstKind::TSInstantiationExpression(_)
            | AstKind::EmptyStatement(_)
            | AstKind::FormalParameters(_)
            | AstKind::Program(_)
    )
}

impl<'a> Visit<'a> for Walk<'_> {
    fn enter_node(&mut self, kind: AstKind<'a>) {
        if self.within > 0 || self.is_gone(kind.span()) {
            self.within += 1;
        } else if !is_transparent(&kind) {
            self.nodes.push(SyntaxNode { kind: kind.ty() as u8, depth: self.depth, start: kind.span().start });
            self.depth += 1;
        }
    }

    fn leave_node(&mut self, kind: AstKind<'a>) {
        if self.within > 0 {
            self.within -= 1;
        } else if !is_transparent(&kind) {
            self.depth -= 1;
        }
    }
}
