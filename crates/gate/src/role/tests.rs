use super::*;
use crate::zone::Bundle;
use std::collections::BTreeMap;

fn parsed(config: &str, files: &[(&str, &str)]) -> Parsed {
    let roles = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    crate::zone::parse_whole(&Bundle { config: config.to_owned(), roles, ..Bundle::default() }).unwrap()
}

fn refused(files: &[(&str, &str)]) -> String {
    let files: Vec<(String, String)> = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    Roles::parse(&files).unwrap_err()
}

const REVIEW: (&str, &str) = ("reviewer/skills/code.review.md", "Review {{what}}.");
const WITH: &str = "---\ndescription: reads code\nparams:\n  what: {type: string}\n  depth: {type: number, default: 2}\n  loud: {type: boolean, \
                    required: false}\n---\nReview {{what}}, {{depth}} deep.{{loud}}\n";

#[test]
fn a_role_is_a_file_or_a_folder_and_a_package_has_one_of_its_own() {
    let found = parsed(
        "crew: {roles: {mechanic: ehmpathy/mechanic, gone: ehmpathy/gone}}",
        &[
            ("brief.md", "Be brief."),
            ("ehmpathy/mechanic/role.md", "---\ntools: [fs.*]\n---\nMend it."),
            ("ehmpathy/mechanic/briefs/b.md", "And clean up."),
            ("ehmpathy/mechanic/README.md", "not for workers"),
            ("README.md", "not for workers either"),
        ],
    );
    assert_eq!(found.role_names(), ["brief", "gone", "mechanic"]);
    assert_eq!(found.role("brief").unwrap().unwrap().brief, "Be brief.");
    let mechanic = found.role("mechanic").unwrap().unwrap();
    assert_eq!(mechanic.brief, "Mend it.\n\nAnd clean up.");
    assert_eq!(found.tool_lists("mechanic", Some(mechanic)), [ToolList { of: "role mechanic".into(), tools: vec!["fs.*".into()] }]);
    let gone = found.role("gone").unwrap_err();
    assert_eq!(gone.reason, "the role `gone` is not here: there is no .skep/roles/ehmpathy/gone");
    assert!(gone.hint.unwrap().contains("put its folder at .skep/roles/ehmpathy/gone"));
    let unknown = found.role("nobody").unwrap_err();
    assert_eq!((unknown.reason.as_str(), unknown.hint.as_deref()), ("there is no role `nobody`", Some("roles: brief, gone, mechanic")));
    assert_eq!(found.role("worker"), Ok(None), "the worker that every project has needs no words");
}

#[test]
fn a_skill_goes_to_the_hero_first_then_to_the_one_role_that_knows_it() {
    let review = |role: &'static str| -> (String, &'static str) { (format!("{role}/skills/code.review.md"), "Review it.") };
    let (a, b) = (review("reviewer"), review("mechanic"));
    let both = [(a.0.as_str(), a.1), (b.0.as_str(), b.1), ("mechanic/skills/fix.md", "Fix it.")];
    let found = parsed("", &both);
    assert_eq!(found.find_skill("fix", None).unwrap().role, Some("mechanic"));
    let several = found.find_skill("code.review", None).unwrap_err();
    assert_eq!(several.reason, "ambiguous  code.review known by [mechanic, reviewer]");
    assert_eq!(several.missing, Some(Missing::OneRole));
    assert_eq!(found.find_skill("code.review", Some("reviewer")).unwrap().role, Some("reviewer"));
    assert_eq!(found.find_skill("fix", Some("reviewer")).unwrap_err().reason, "reviewer does not know skill fix");
    let none = found.find_skill("unknown.skill", None).unwrap_err();
    assert_eq!((none.reason.as_str(), none.hint.as_deref()), ("no role knows skill unknown.skill", Some("available  code.review, fix")));
    assert_eq!(none.missing, Some(Missing::Skill));
    let with_hero = parsed("crew: {hero: {role: mechanic}}", &both);
    assert_eq!(with_hero.find_skill("code.review", None).unwrap().role, None, "the hero knows it");
}

#[test]
fn parameters_have_types_and_every_mistake_is_told() {
    let found = parsed("", &[("reviewer/skills/code.review.md", WITH)]);
    let skill = found.find_skill("code.review", None).unwrap().skill;
    let given = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let work = |pairs: &[(&str, &str)]| skill.values(&given(pairs)).map(|values| skill.filled_in(&values));
    let prompt = |text: &str| Ok(SkillWork::Prompt(text.to_owned()));
    assert_eq!(work(&[("what", "src")]), prompt("Review src, 2 deep."));
    assert_eq!(work(&[("what", "{{depth}}"), ("depth", "1.5"), ("loud", "true")]), prompt("Review {{depth}}, 1.5 deep.true"));
    for (pairs, why) in [
        (vec![], "code.review: `what` is missing"),
        (vec![("what", "a"), ("wat", "b")], "code.review: there is no parameter `wat`"),
        (vec![("what", "a"), ("depth", "deep")], "code.review: `depth` is a number, and `deep` is none"),
        (vec![("what", "a"), ("loud", "yes")], "code.review: `loud` is a boolean, and `yes` is none"),
    ] {
        let refusal = work(&pairs).unwrap_err();
        assert_eq!(refusal.reason, why);
        assert_eq!(refusal.hint.as_deref(), Some("it takes depth (number, default 2), loud (boolean, optional), what (string)"));
    }
}

#[test]
fn a_value_stays_one_word_of_a_command() {
    let text = "---\ncommand: [echo, '{{what}}']\nparams: {what: {}}\n---\n";
    let found = parsed("", &[("r/skills/say.md", text)]);
    let skill = found.find_skill("say", None).unwrap().skill;
    let values = skill.values(&[("what".to_owned(), "a; rm -rf {{x}}".to_owned())].into()).unwrap();
    assert_eq!(skill.filled_in(&values), SkillWork::Command(vec!["echo".into(), "a; rm -rf {{x}}".into()]));
}

#[test]
fn files_that_cannot_be_are_named() {
    for (file, why) in [
        (REVIEW, ".skep/roles/reviewer/skills/code.review.md: `{{what}}` is no parameter of it; it takes no parameters"),
        (("r/skills/s.md", ""), "it has neither a text nor a `command`"),
        (("r/skills/s.md", "---\ncommand: []\n---\n"), "`command` names no program"),
        (("r/skills/s.md", "---\nparams: {a: {type: text}}\n---\nx"), "text"),
        (("r/skills/s.md", "---\nparams: {a: {type: number, default: two}}\n---\nx"), "the default of `a` is \"two\", and no number"),
        (("r/skills/s.md", "---\nparams: {a: {required: true, default: b}}\n---\nx"), "is required and has a default"),
        (("r/skills/s.md", "---\nname: t\n---\nx"), "its file is called `s`, and it calls itself `t`"),
        (("r/skills/s.md", "---\nallow: [fs.write]\n---\nx"), "allow"),
        (("r/skills/s.md", "---\nparams: {}\nx"), "not closed by a line `---`"),
        (("r/role.md", "---\npolicy: allow\n---\nx"), "policy"),
        (("r/role.md", "---\ntools: ['a b']\n---\nx"), "`a b` is no tool"),
        (("operator.md", "x"), "`operator` says who a caller is"),
    ] {
        let told = refused(&[file]);
        assert!(told.contains(why), "{file:?}: {told}");
    }
}

#[test]
fn a_worker_is_told_its_brief_and_its_skills() {
    let found = parsed(
        "",
        &[("r/role.md", "Be strict."), ("r/skills/look.md", "Look."), ("r/skills/lint.md", "---\ncommand: [make, lint]\n---\n")],
    );
    let role = found.role("r").unwrap().unwrap();
    let expected = "Your role in this project is r.\n\nBe strict.\n\nYou know these skills:\n\n## lint\nRun: make lint\n\n## look\nLook.";
    assert_eq!(role_brief("r", role), expected);
}
