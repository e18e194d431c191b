//! Finds what only types need, and what must stand in its place so that the rest keeps its meaning.
//!
//! A blank can swallow the end of a statement: after `let a: B` and a line end, a parenthesis begins a new statement, but after
//! `let a` it calls. So where a statement or a member of a class ended with a type, or was one, a semicolon takes the first byte of the
//! blank. An arrow function must not have a line end before `=>`; there, parentheses move over the blank.

use oxc_ast::ast::*;
use oxc_ast_visit::{Visit, walk};
use oxc_parser::{Kind, Token};
use oxc_span::{GetSpan, Span};
use oxc_syntax::scope::ScopeFlags;

use super::Wrong;

mod declare;

/// What is to be done to a text.
pub(super) struct Erased {
    /// What becomes blank: sorted, and joined where it touches.
    pub(super) gone: Vec<Span>,
    /// What is written into the blanks, and where; sorted.
    put: Vec<(u32, u8)>,
}

pub(super) fn erase(text: &str, program: &Program<'_>, tokens: &[Token]) -> Result<Erased, Wrong> {
    let mut eraser = Eraser { text, tokens, gone: Vec::new(), put: Vec::new(), wrong: None };
    eraser.visit_program(program);
    match eraser.wrong {
        Some((at, what)) => Err(Wrong { at: at as usize, what: what.to_owned() }),
        None => {
            eraser.put.sort_unstable();
            eraser.put.dedup();
            Ok(Erased { gone: joined(eraser.gone), put: eraser.put })
        }
    }
}

fn joined(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable_by_key(|span| span.start);
    let mut joined: Vec<Span> = Vec::with_capacity(spans.len());
    for span in spans {
        match joined.last_mut() {
            Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
            _ => joined.push(span),
        }
    }
    joined
}

impl Erased {
    /// Was a semicolon written at this byte?
    pub(super) fn added(&self, at: u32) -> bool {
        self.put.binary_search(&(at, b';')).is_ok()
    }

    /// The text with its blanks, as long as before in bytes and in UTF-16.
    pub(super) fn apply(&self, text: &str) -> String {
        let mut code = String::with_capacity(text.len());
        let mut done = 0;
        for gone in &self.gone {
            code.push_str(&text[done..gone.start as usize]);
            done = gone.end as usize;
            for (at, sign) in text[gone.start as usize..done].char_indices() {
                let at = gone.start + u32::try_from(at).unwrap_or(u32::MAX);
                let put = self.put.get(self.put.partition_point(|(put, _)| *put < at)).filter(|(put, _)| *put == at);
                match (put, sign.len_utf8()) {
                    (Some((_, byte)), width) => {
                        code.push(char::from(*byte));
                        code.extend(std::iter::repeat_n(' ', width - 1));
                    }
                    (None, _) if is_line_end(sign) => code.push(sign),
                    (None, 1) => code.push(' '),
                    (None, 2) => code.push('\u{a0}'),
                    (None, 3) => code.push('\u{2003}'),
                    (None, _) => code.push_str("\u{a0}\u{a0}"),
                }
            }
        }
        code.push_str(&text[done..]);
        code
    }
}

fn is_line_end(sign: char) -> bool {
    matches!(sign, '\n' | '\r' | '\u{2028}' | '\u{2029}')
}

struct Eraser<'t> {
    text: &'t str,
    tokens: &'t [Token],
    gone: Vec<Span>,
    put: Vec<(u32, u8)>,
    /// The first of what cannot be erased.
    wrong: Option<(u32, &'static str)>,
}

impl Eraser<'_> {
    fn blank(&mut self, span: Span) {
        self.gone.push(span);
    }

    /// Blanks a whole statement or member. The semicolon keeps what stands before and after it apart.
    fn blank_all(&mut self, span: Span) {
        self.blank(span);
        self.put.push((span.start, b';'));
    }

    fn refuse(&mut self, span: Span, what: &'static str) {
        if self.wrong.is_none_or(|(at, _)| span.start < at) {
            self.wrong = Some((span.start, what));
        }
    }

    /// The first token at or after a byte.
    fn next(&self, at: u32) -> Option<Token> {
        self.tokens.get(self.tokens.partition_point(|token| token.start() < at)).copied().filter(|token| token.kind() != Kind::Eof)
    }

    /// The last token that ends at or before a byte.
    fn before(&self, at: u32) -> Option<Token> {
        self.tokens[..self.tokens.partition_point(|token| token.end() <= at)].last().copied()
    }

    /// Blanks the token at or after a byte if it is of this kind.
    fn blank_next(&mut self, at: u32, kind: Kind) {
        if let Some(token) = self.next(at).filter(|token| token.kind() == kind) {
            self.blank(token.span());
        }
    }

    /// Blanks one of a list, with the comma after it.
    fn blank_item(&mut self, span: Span) {
        self.blank(span);
        self.blank_next(span.end, Kind::Comma);
    }

    /// Blanks from the word after an expression (`as`, `satisfies`) to the end of the type.
    fn blank_tail(&mut self, expression: Span, whole: Span) {
        if let Some(word) = self.next(expression.end) {
            self.blank(Span::new(word.start(), whole.end));
        }
    }

    fn has_line_end(&self, start: u32, end: u32) -> bool {
        self.text[start as usize..end as usize].contains(is_line_end)
    }

    /// Ends a statement or member with a semicolon where its last piece is blank and nothing else ends it.
    fn close(&mut self, whole: Span, since: usize) {
        let last = self.gone[since..].last().filter(|gone| gone.end == whole.end).map(|gone| gone.start);
        let next = self.next(whole.end).map(|token| token.kind());
        if let Some(start) = last.filter(|_| !matches!(next, None | Some(Kind::Semicolon | Kind::RCurly))) {
            self.put.push((start, b';'));
        }
    }

    /// Blanks the words before a member's name that only types need. `public [a]` must not become an index of what stands before it.
    fn blank_modifiers(&mut self, member: Span, key: Span) {
        let first = self.tokens.partition_point(|token| token.start() < member.start);
        for at in first..self.tokens.len() {
            let token = self.tokens[at];
            if token.start() >= key.start {
                break;
            }
            if matches!(token.kind(), Kind::Public | Kind::Private | Kind::Protected | Kind::Readonly | Kind::Override) {
                self.blank(token.span());
                if at == first {
                    self.put.push((token.start(), b';'));
                }
            }
        }
    }

    /// Blanks `?` or `!` after a member's name.
    fn blank_mark(&mut self, key: Span, computed: bool) {
        let end = if computed { self.next(key.end).map_or(key.end, |token| token.end()) } else { key.end };
        if let Some(mark) = self.next(end).filter(|token| matches!(token.kind(), Kind::Question | Kind::Bang)) {
            self.blank(mark.span());
        }
    }
}

const DECORATOR: &str = "a decorator needs more than removing types, and is not supported";
const PARAMETER_PROPERTY: &str =
    "a parameter property needs more than removing types, and is not supported; declare the field and assign it";

impl<'a> Visit<'a> for Eraser<'_> {
    fn visit_statement(&mut self, statement: &Statement<'a>) {
        match declare::of(statement) {
            declare::StatementKind::Types => self.blank_all(statement.span()),
            declare::StatementKind::Unsupported(what) => self.refuse(statement.span(), what),
            declare::StatementKind::Code => {
                let since = self.gone.len();
                walk::walk_statement(self, statement);
                self.close(statement.span(), since);
            }
        }
    }

    fn visit_ts_type_annotation(&mut self, annotation: &TSTypeAnnotation<'a>) {
        self.blank(annotation.span);
    }

    fn visit_ts_type_parameter_declaration(&mut self, parameters: &TSTypeParameterDeclaration<'a>) {
        self.blank(parameters.span);
    }

    fn visit_ts_type_parameter_instantiation(&mut self, arguments: &TSTypeParameterInstantiation<'a>) {
        self.blank(arguments.span);
    }

    fn visit_ts_this_parameter(&mut self, this: &TSThisParameter<'a>) {
        self.blank_item(this.span);
    }

    fn visit_ts_as_expression(&mut self, cast: &TSAsExpression<'a>) {
        self.visit_expression(&cast.expression);
        self.blank_tail(cast.expression.span(), cast.span);
    }

    fn visit_ts_satisfies_expression(&mut self, cast: &TSSatisfiesExpression<'a>) {
        self.visit_expression(&cast.expression);
        self.blank_tail(cast.expression.span(), cast.span);
    }

    fn visit_ts_non_null_expression(&mut self, checked: &TSNonNullExpression<'a>) {
        self.visit_expression(&checked.expression);
        self.blank_next(checked.expression.span().end, Kind::Bang);
    }

    fn visit_ts_type_assertion(&mut self, cast: &TSTypeAssertion<'a>) {
        let end = self.before(cast.expression.span().start).map_or(cast.type_annotation.span().end, |token| token.end());
        self.blank(Span::new(cast.span.start, end));
        self.visit_expression(&cast.expression);
    }

    fn visit_variable_declarator(&mut self, variable: &VariableDeclarator<'a>) {
        if variable.definite {
            self.blank_next(variable.id.span().end, Kind::Bang);
        }
        walk::walk_variable_declarator(self, variable);
    }

    fn visit_formal_parameter(&mut self, parameter: &FormalParameter<'a>) {
        if parameter.accessibility.is_some() || parameter.readonly || parameter.r#override {
            self.refuse(parameter.span, PARAMETER_PROPERTY);
        }
        if parameter.optional {
            self.blank_next(parameter.pattern.span().end, Kind::Question);
        }
        walk::walk_formal_parameter(self, parameter);
    }

    fn visit_arrow_function_expression(&mut self, arrow: &ArrowFunctionExpression<'a>) {
        let parameters = arrow.params.span;
        if let Some(types) = &arrow.type_parameters
            && self.has_line_end(types.span.start, parameters.start)
        {
            self.blank(Span::new(parameters.start, parameters.start + 1));
            self.put.push((types.span.start, b'('));
        }
        if let Some(types) = &arrow.return_type
            && self.has_line_end(parameters.end, types.span.end)
        {
            self.blank(Span::new(parameters.end - 1, parameters.end));
            // A sign of one byte, if its last line has one, so that columns stay.
            let last = self.text[..types.span.end as usize].char_indices().rev();
            let last = last.take_while(|(at, sign)| *at >= parameters.end as usize && !is_line_end(*sign));
            let last = last.reduce(|end, sign| if end.1.is_ascii() { end } else { sign }).map_or(0, |(at, _)| at);
            self.put.push((u32::try_from(last).unwrap_or(u32::MAX), b')'));
        }
        walk::walk_arrow_function_expression(self, arrow);
    }

    fn visit_class(&mut self, class: &Class<'a>) {
        if let Some(word) = self.next(class.span.start).filter(|word| word.kind() == Kind::Abstract) {
            self.blank(word.span());
        }
        if let (Some(first), Some(last)) = (class.implements.first(), class.implements.last()) {
            let start = self.before(first.span.start).map_or(first.span.start, |word| word.start());
            self.blank(Span::new(start, last.span.end));
        }
        self.visit_decorators(&class.decorators);
        if let Some(types) = &class.type_parameters {
            self.blank(types.span);
        }
        if let Some(heritage) = &class.heritage {
            self.visit_expression(&heritage.expression);
            if let Some(types) = &heritage.type_arguments {
                self.blank(types.span);
            }
        }
        self.visit_class_body(&class.body);
    }

    fn visit_class_element(&mut self, element: &ClassElement<'a>) {
        if declare::is_typed_only(element) {
            match declare::decorators(element).first() {
                Some(decorator) => self.visit_decorator(decorator),
                None => self.blank_all(element.span()),
            }
            return;
        }
        let since = self.gone.len();
        walk::walk_class_element(self, element);
        self.close(element.span(), since);
    }

    fn visit_method_definition(&mut self, method: &MethodDefinition<'a>) {
        self.blank_modifiers(method.span, method.key.span());
        if method.optional {
            self.blank_mark(method.key.span(), method.computed);
        }
        self.visit_decorators(&method.decorators);
        self.visit_property_key(&method.key);
        self.visit_function(&method.value, ScopeFlags::empty());
    }

    fn visit_property_definition(&mut self, property: &PropertyDefinition<'a>) {
        self.blank_modifiers(property.span, property.key.span());
        if property.optional || property.definite {
            self.blank_mark(property.key.span(), property.computed);
        }
        walk::walk_property_definition(self, property);
    }

    fn visit_accessor_property(&mut self, property: &AccessorProperty<'a>) {
        self.blank_modifiers(property.span, property.key.span());
        if property.definite {
            self.blank_mark(property.key.span(), property.computed);
        }
        walk::walk_accessor_property(self, property);
    }

    fn visit_import_specifier(&mut self, import: &ImportSpecifier<'a>) {
        if import.import_kind.is_type() {
            self.blank_item(import.span);
        }
    }

    fn visit_export_specifier(&mut self, export: &ExportSpecifier<'a>) {
        if export.export_kind.is_type() {
            self.blank_item(export.span);
        }
    }

    fn visit_decorator(&mut self, decorator: &Decorator<'a>) {
        self.refuse(decorator.span, DECORATOR);
    }
}
