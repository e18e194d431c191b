//! Which statements and members are only types, and which need more than removing them.

use oxc_ast::ast::*;

/// What becomes of a statement.
pub(super) enum StatementKind {
    /// Nothing is left of it.
    Types,
    /// It is code; types may stand in it.
    Code,
    /// It is code only after a translation that is not made here.
    Unsupported(&'static str),
}

const ENUM: &str = "an enum needs more than removing types, and is not supported; use a constant object";
const NAMESPACE: &str = "a namespace with values needs more than removing types, and is not supported; use a file of its own";
const IMPORT_EQUALS: &str = "`import … =` needs more than removing types, and is not supported; use `import … from`";
const EXPORT_EQUALS: &str = "`export =` needs more than removing types, and is not supported; use `export default`";

pub(super) fn of(statement: &Statement<'_>) -> StatementKind {
    let types = |only: bool| if only { StatementKind::Types } else { StatementKind::Code };
    if let Some(declaration) = statement.as_declaration() {
        return declared(declaration);
    }
    match statement {
        Statement::ExportDeclaration(export) => declared(&export.declaration),
        Statement::ExportDefaultDeclaration(export) => match &export.declaration {
            ExportDefaultDeclarationKind::FunctionDeclaration(function) => types(function.body.is_none()),
            ExportDefaultDeclarationKind::TSInterfaceDeclaration(_) => StatementKind::Types,
            _ => StatementKind::Code,
        },
        Statement::ImportDeclaration(import) => types(import.import_kind.is_type()),
        Statement::ExportNamedDeclaration(export) => types(export.export_kind.is_type()),
        Statement::ExportFromDeclaration(export) => types(export.export_kind.is_type()),
        Statement::ExportAllDeclaration(export) => types(export.export_kind.is_type()),
        Statement::TSNamespaceExportDeclaration(_) => StatementKind::Types,
        Statement::TSExportAssignment(_) => StatementKind::Unsupported(EXPORT_EQUALS),
        _ => StatementKind::Code,
    }
}

fn declared(declaration: &Declaration<'_>) -> StatementKind {
    let types = |only: bool, otherwise: StatementKind| if only { StatementKind::Types } else { otherwise };
    match declaration {
        Declaration::TSTypeAliasDeclaration(_)
        | Declaration::TSInterfaceDeclaration(_)
        | Declaration::TSExternalModuleDeclaration(_)
        | Declaration::TSGlobalDeclaration(_) => StatementKind::Types,
        Declaration::VariableDeclaration(variables) => types(variables.declare, StatementKind::Code),
        Declaration::FunctionDeclaration(function) => types(function.declare || function.body.is_none(), StatementKind::Code),
        Declaration::ClassDeclaration(class) => types(class.declare, StatementKind::Code),
        Declaration::TSEnumDeclaration(values) => types(values.declare, StatementKind::Unsupported(ENUM)),
        Declaration::TSNamespaceDeclaration(space) => {
            types(space.declare || has_only_types(&space.body), StatementKind::Unsupported(NAMESPACE))
        }
        Declaration::TSImportEqualsDeclaration(import) => types(import.import_kind.is_type(), StatementKind::Unsupported(IMPORT_EQUALS)),
    }
}

fn has_only_types(body: &TSNamespaceDeclarationBody<'_>) -> bool {
    match body {
        TSNamespaceDeclarationBody::TSNamespaceDeclaration(inner) => has_only_types(&inner.body),
        TSNamespaceDeclarationBody::TSModuleBlock(block) => {
            block.directives.is_empty() && block.body.iter().all(|statement| matches!(of(statement), StatementKind::Types))
        }
    }
}

/// Is nothing left of a member of a class? An overload, an abstract or declared member, an index signature.
pub(super) fn is_typed_only(element: &ClassElement<'_>) -> bool {
    match element {
        ClassElement::TSIndexSignature(_) => true,
        ClassElement::MethodDefinition(method) => method.r#type.is_abstract() || method.value.body.is_none(),
        ClassElement::PropertyDefinition(property) => property.r#type.is_abstract() || property.declare,
        ClassElement::AccessorProperty(property) => property.r#type.is_abstract(),
        ClassElement::StaticBlock(_) => false,
    }
}

pub(super) fn decorators<'e, 'a>(element: &'e ClassElement<'a>) -> &'e [Decorator<'a>] {
    match element {
        ClassElement::MethodDefinition(method) => &method.decorators,
        ClassElement::PropertyDefinition(property) => &property.decorators,
        ClassElement::AccessorProperty(property) => &property.decorators,
        ClassElement::StaticBlock(_) | ClassElement::TSIndexSignature(_) => &[],
    }
}
