//! A file as a tree, with the place of every part. Aliases and merge keys (`<<`) are unfolded here.

use crate::error::{Location, YamlError, YamlFault};
use crate::{COPIED_BYTES_MAX, DEPTH_MAX, NODES_MAX};
use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, Span, Tag};
use std::collections::{HashMap, HashSet};

/// A part of a file.
#[derive(Debug, Clone)]
pub(crate) struct YamlNode {
    pub(crate) at: Location,
    pub(crate) content: Content,
}

#[derive(Debug, Clone)]
pub(crate) enum Content {
    /// `is_plain` says whether it may stand for something else than itself; see `scalar.rs`.
    Word {
        text: String,
        is_plain: bool,
    },
    List(Vec<YamlNode>),
    /// Keys are words, each once.
    Map(Vec<(YamlNode, YamlNode)>),
}

impl YamlNode {
    fn nothing(at: Location) -> YamlNode {
        YamlNode { at, content: Content::Word { text: String::new(), is_plain: true } }
    }

    /// The same at another place: what is wrong with it is wrong where its alias stands.
    fn copy(&self, at: Location) -> YamlNode {
        let content = match &self.content {
            Content::Word { .. } => self.content.clone(),
            Content::List(items) => Content::List(items.iter().map(|item| item.copy(at)).collect()),
            Content::Map(entries) => Content::Map(entries.iter().map(|(key, value)| (key.copy(at), value.copy(at))).collect()),
        };
        YamlNode { at, content }
    }

    /// How many parts it has, how deeply they are nested, and how many bytes its words have.
    fn size(&self) -> NodeSize {
        fn of_all<'n>(nodes: impl Iterator<Item = &'n YamlNode>) -> NodeSize {
            let mut whole = NodeSize { count: 1, depth: 0, bytes: 0 };
            for part in nodes.map(YamlNode::size) {
                whole.count += part.count;
                whole.depth = whole.depth.max(part.depth);
                whole.bytes += part.bytes;
            }
            whole.depth += 1;
            whole
        }
        match &self.content {
            Content::Word { text, .. } => NodeSize { count: 1, depth: 0, bytes: text.len() },
            Content::List(items) => of_all(items.iter()),
            Content::Map(entries) => of_all(entries.iter().flat_map(|(key, value)| [key, value])),
        }
    }
}

struct NodeSize {
    count: usize,
    depth: usize,
    bytes: usize,
}

/// Reads the one document of a file.
pub(crate) fn parse(text: &str) -> Result<YamlNode, YamlError> {
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            let mark = error.marker();
            let what = if *error.kind() == ErrorKind::UnknownAnchor { "alias references unknown anchor".to_owned() } else { error.info() };
            YamlError::other(Location::new(mark.line(), mark.col() + 1), what)
        })?;
        builder.take(event, place(&span))?;
    }
    Ok(builder.root.unwrap_or_else(|| YamlNode::nothing(Location::new(1, 1))))
}

fn place(span: &Span) -> Location {
    Location::new(span.start.line(), span.start.col() + 1)
}

/// The tree as far as it was read.
#[derive(Default)]
struct Builder {
    open: Vec<Frame>,
    /// What has an anchor, by its number.
    anchored: HashMap<usize, YamlNode>,
    root: Option<YamlNode>,
    has_document: bool,
    nodes: usize,
    /// Bytes of words that were copied for anchors and aliases.
    copied: usize,
}

/// A list or map that is not closed yet.
struct Frame {
    node: YamlNode,
    /// Zero is none.
    anchor: usize,
    /// The key whose value comes next.
    key: Option<YamlNode>,
    keys: HashSet<String>,
    /// What the merge keys of a map stand for.
    merges: Vec<YamlNode>,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, at: Location) -> Result<(), YamlError> {
        match event {
            Event::DocumentStart(..) if self.has_document => Err(YamlError::new(at, YamlFault::SecondDocument)),
            Event::DocumentStart(..) => {
                self.has_document = true;
                Ok(())
            }
            Event::Scalar(text, style, anchor, tag) => {
                let is_plain = is_plain(style, tag.as_deref(), at)?;
                let node = YamlNode { at, content: Content::Word { text: text.into_owned(), is_plain } };
                self.count(1, 0, at)?;
                self.close(node, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => self.open(Content::List(Vec::new()), anchor, tag.as_deref(), at),
            Event::MappingStart(_, anchor, tag) => self.open(Content::Map(Vec::new()), anchor, tag.as_deref(), at),
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(frame) = self.open.pop() else { return Err(YamlError::other(at, "a list or map ends that did not begin")) };
                let anchor = frame.anchor;
                self.close(frame.finish()?, anchor)
            }
            Event::Alias(anchor) => {
                let Some(node) = self.anchored.get(&anchor) else {
                    return Err(YamlError::other(at, "an alias stands inside of what it is an alias for"));
                };
                let size = node.size();
                // Counted before it is copied: a long word with many aliases would be more than there is memory.
                self.copied += size.bytes;
                self.count(size.count, size.depth, at)?;
                let Some(node) = self.anchored.get(&anchor).map(|node| node.copy(at)) else {
                    return Err(YamlError::other(at, "an alias stands inside of what it is an alias for"));
                };
                self.close(node, 0)
            }
            // The stream's own ends, and what is for programs that write YAML.
            _ => Ok(()),
        }
    }

    fn open(&mut self, content: Content, anchor: usize, tag: Option<&Tag>, at: Location) -> Result<(), YamlError> {
        is_plain(ScalarStyle::Plain, tag, at)?;
        self.count(1, 1, at)?;
        let node = YamlNode { at, content };
        self.open.push(Frame { node, anchor, key: None, keys: HashSet::new(), merges: Vec::new() });
        Ok(())
    }

    /// Counts parts before they are kept.
    fn count(&mut self, nodes: usize, depth: usize, at: Location) -> Result<(), YamlError> {
        self.nodes += nodes;
        if self.nodes > NODES_MAX {
            return Err(YamlError::other(at, format!("the file has more than {NODES_MAX} words, lists and maps")));
        }
        if self.copied > COPIED_BYTES_MAX {
            return Err(YamlError::other(at, format!("anchors and aliases stand for more than {COPIED_BYTES_MAX} bytes")));
        }
        if self.open.len() + depth > DEPTH_MAX {
            return Err(YamlError::other(at, format!("lists and maps are nested more than {DEPTH_MAX} deep")));
        }
        Ok(())
    }

    /// Puts a part that is whole where it belongs.
    fn close(&mut self, node: YamlNode, anchor: usize) -> Result<(), YamlError> {
        if anchor != 0 {
            let size = node.size();
            self.copied += size.bytes;
            self.count(size.count, 0, node.at)?;
            self.anchored.insert(anchor, node.clone());
        }
        match self.open.last_mut() {
            Some(frame) => frame.add(node),
            None => {
                self.root = Some(node);
                Ok(())
            }
        }
    }
}

impl Frame {
    fn add(&mut self, node: YamlNode) -> Result<(), YamlError> {
        let entries = match &mut self.node.content {
            Content::List(items) => {
                items.push(node);
                return Ok(());
            }
            Content::Map(entries) => entries,
            Content::Word { .. } => return Err(YamlError::other(node.at, "a word has no parts")),
        };
        let Some(key) = self.key.take() else {
            let Content::Word { text, is_plain } = &node.content else {
                return Err(YamlError::other(node.at, "a key is to be a word"));
            };
            let is_merge = *is_plain && text == "<<";
            if !is_merge && !self.keys.insert(text.clone()) {
                return Err(YamlError::new(node.at, YamlFault::DuplicateKey(text.clone())));
            }
            self.key = Some(node);
            return Ok(());
        };
        if matches!(&key.content, Content::Word { text, is_plain: true } if text == "<<") {
            self.merges.push(node);
        } else {
            entries.push((key, node));
        }
        Ok(())
    }

    /// Adds what merge keys bring: what a map says itself counts before it, and of several the first.
    fn finish(mut self) -> Result<YamlNode, YamlError> {
        let Content::Map(entries) = &mut self.node.content else { return Ok(self.node) };
        for merge in self.merges {
            let maps = match merge.content {
                Content::List(items) => items,
                content => vec![YamlNode { at: merge.at, content }],
            };
            for map in maps {
                let Content::Map(brought) = map.content else {
                    return Err(YamlError::other(map.at, "`<<` takes a map or a list of maps"));
                };
                entries.extend(brought.into_iter().filter(|(key, _)| match &key.content {
                    Content::Word { text, .. } => self.keys.insert(text.clone()),
                    _ => false,
                }));
            }
        }
        Ok(self.node)
    }
}

/// Whether a word may stand for something else than itself. The tags of YAML's own types are known, and of words `!!str` and `!`.
fn is_plain(style: ScalarStyle, tag: Option<&Tag>, at: Location) -> Result<bool, YamlError> {
    let Some(tag) = tag else { return Ok(style == ScalarStyle::Plain) };
    match tag.core_suffix() {
        Some("str") => Ok(false),
        Some(_) => Ok(true),
        None if matches!(tag.parts(), ("!", "") | ("", "!")) => Ok(false),
        None => Err(YamlError::other(at, format!("nobody knows the tag `{}`", tag.original()))),
    }
}
