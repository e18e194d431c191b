use crate::{Dialect, ParsedRequest};

fn read(dialect: Dialect, member: &str) -> Result<ParsedRequest, String> {
    let path = match dialect {
        Dialect::Anthropic => "/v1/messages",
        Dialect::Responses => "/v1/responses",
        Dialect::Chat => "/v1/chat/completions",
        Dialect::Gemini => "/v1beta/models/m:generateContent",
    };
    dialect.parse_request(path, format!(r#"{{"model":"m",{member}}}"#).as_bytes()).map_err(|bad| bad.why)
}

/// What a request has its provider run, as `a+b`.
fn runs(dialect: Dialect, member: &str) -> Result<String, String> {
    read(dialect, member).map(|request| request.provider_tools.into_iter().collect::<Vec<_>>().join("+"))
}

fn tool(dialect: Dialect, tool: &str) -> Result<String, String> {
    runs(dialect, &format!(r#""tools":[{tool}]"#))
}

#[test]
fn what_comes_back_to_the_client_is_its_own() {
    for own in [
        r#"{"name":"Bash","input_schema":{"type":"object","properties":{"type":{"type":"web_search_20250305"}}}}"#,
        r#"{"type":"custom","name":"web_search","input_schema":{}}"#,
        r#"{"type":null,"name":"x"}"#,
        r#"{"type":"bash_20250124","name":"bash"}"#,
        r#"{"type":"text_editor_20250728","name":"str_replace_based_edit_tool"}"#,
        r#"{"type":"memory_20250818"}"#,
        r#"{"type":"computer_20251124","display_width_px":1}"#,
        r#"{"type":"tool_search_tool_regex_20251119"}"#,
        r#"{"type":"tool_search_tool_bm25"}"#,
    ] {
        assert_eq!(tool(Dialect::Anthropic, own), Ok(String::new()), "{own}");
    }
    for own in [
        r#"{"type":"function","name":"exec_command","parameters":{"tools":[{"type":"mcp"}]}}"#,
        r#"{"type":"custom","name":"apply_patch","format":{"type":"grammar"}}"#,
        r#"{"type":"local_shell"}"#,
        r#"{"type":"apply_patch"}"#,
        r#"{"type":"computer_use_preview","environment":"browser"}"#,
        r#"{"type":"tool_search","execution":"client"}"#,
        r#"{"type":"shell","environment":{"type":"local"}}"#,
        r#"{"type":"namespace","name":"mcp__x","tools":[{"type":"function","name":"a"},{"type":"namespace","tools":[]}]}"#,
    ] {
        assert_eq!(tool(Dialect::Responses, own), Ok(String::new()), "{own}");
    }
    for own in [r#"{"type":"function","function":{"name":"web_search"}}"#, r#"{"type":"custom"}"#, r#"{"function":{"name":"x"}}"#] {
        assert_eq!(tool(Dialect::Chat, own), Ok(String::new()), "{own}");
    }
    for own in [
        r#"{"functionDeclarations":[{"name":"googleSearch"}]}"#,
        r#"{"function_declarations":[],"googleSearch":null}"#,
        r#"{"computerUse":{"environment":"ENVIRONMENT_BROWSER"}}"#,
    ] {
        assert_eq!(tool(Dialect::Gemini, own), Ok(String::new()), "{own}");
    }
    for dialect in Dialect::ALL {
        assert_eq!(runs(dialect, r#""tools":null"#), Ok(String::new()));
        assert_eq!(runs(dialect, r#""tools":[]"#), Ok(String::new()));
    }
}

#[test]
fn what_a_provider_runs_has_one_name_in_every_dialect() {
    for (given, name) in [
        (r#"{"type":"web_search_20250305","name":"web_search"}"#, "web_search"),
        (r#"{"type":"web_search_20260209"}"#, "web_search"),
        (r#"{"type":"web_fetch_20250910"}"#, "web_fetch"),
        (r#"{"type":"code_execution_20260120"}"#, "code_execution"),
        (r#"{"type":"mcp_toolset","mcp_server_name":"x"}"#, "mcp"),
        (r#"{"type":"advisor_20260301","model":"claude-opus-4-8"}"#, "advisor"),
        (r#"{"\u0074ype":"\u0077eb_fetch_20250910"}"#, "web_fetch"),
        // Not the client's `bash`, whatever it begins with.
        (r#"{"type":"bash_code_execution_20250825"}"#, "bash_code_execution"),
        (r#"{"type":"bash_2025"}"#, "bash_2025"),
        (r#"{"type":""}"#, ""),
    ] {
        let request = read(Dialect::Anthropic, &format!(r#""tools":[{given}]"#)).unwrap();
        assert_eq!(request.provider_tools.into_iter().collect::<Vec<_>>(), [name], "{given}");
    }
    for (given, name) in [
        (r#"{"type":"web_search","external_web_access":true}"#, "web_search"),
        (r#"{"type":"web_search_preview_2025_03_11"}"#, "web_search"),
        (r#"{"type":"web_search_2025_08_26"}"#, "web_search"),
        (r#"{"type":"file_search","vector_store_ids":[]}"#, "file_search"),
        (r#"{"type":"code_interpreter","container":{"type":"auto"}}"#, "code_execution"),
        (r#"{"type":"mcp","server_url":"https://x"}"#, "mcp"),
        (r#"{"type":"mcp","connector_id":"connector_gmail"}"#, "mcp"),
        (r#"{"type":"image_generation"}"#, "image_generation"),
        (r#"{"type":"shell"}"#, "code_execution"),
        (r#"{"type":"shell","environment":{"type":"container_auto"}}"#, "code_execution"),
        (r#"{"type":"shell","environment":"local"}"#, "code_execution"),
        (r#"{"type":"Function"}"#, "_function"),
        (r#"{"type":"namespace","tools":[{"type":"function"},{"type":"namespace","tools":[{"type":"mcp"}]}]}"#, "mcp"),
        (r#"{"type":"odd\u001b[2Jone"}"#, "odd??2_jone"),
    ] {
        assert_eq!(tool(Dialect::Responses, given), Ok(name.to_owned()), "{given}");
    }
    for (given, name) in [
        (r#"{"googleSearch":{}}"#, "web_search"),
        (r#"{"google_search":{}}"#, "web_search"),
        (r#"{"googleSearchRetrieval":{}}"#, "web_search"),
        (r#"{"enterpriseWebSearch":{}}"#, "web_search"),
        (r#"{"url_context":{}}"#, "web_fetch"),
        (r#"{"functionDeclarations":[],"urlContext":{},"codeExecution":{}}"#, "code_execution+web_fetch"),
        (r#"{"googleMaps":{}}"#, "maps"),
        (r#"{"fileSearch":{}}"#, "file_search"),
        (r#"{"mcpServers":[]}"#, "mcp"),
        (r#"{"retrieval":{}}"#, "file_search"),
        (r#"{"\u0067oogleSearch":{}}"#, "web_search"),
        (r#"{"tomorrow":{}}"#, "tomorrow"),
        // Given twice, either may count: both do.
        (r#"{"codeExecution":null,"codeExecution":{}}"#, "code_execution"),
    ] {
        assert_eq!(tool(Dialect::Gemini, given), Ok(name.to_owned()), "{given}");
    }
    assert_eq!(runs(Dialect::Gemini, r#""tools":{"googleSearch":{}}"#), Ok("web_search".into()), "one is taken for several");
    for (given, name) in [
        (r#"{"type":"web_search"}"#, "web_search"),
        (r#"{"type":"builtin_function","function":{"name":"$web_search"}}"#, "builtin_function"),
        (r#"{"type":"openrouter:web_search"}"#, "openrouter:web_search"),
        (r#"{"type":"mcp"}"#, "mcp"),
    ] {
        assert_eq!(tool(Dialect::Chat, given), Ok(name.to_owned()), "{given}");
    }
}

#[test]
fn what_stands_beside_the_tools_counts_too() {
    for (dialect, member, name) in [
        (Dialect::Anthropic, r#""mcp_servers":[{"type":"url","url":"https://x"}]"#, "mcp"),
        (Dialect::Anthropic, r#""mcp_servers":[]"#, ""),
        (Dialect::Anthropic, r#""container":"container_1""#, "code_execution"),
        (Dialect::Anthropic, r#""container":{"skills":[{"type":"anthropic","skill_id":"pptx"}]}"#, "code_execution"),
        (Dialect::Anthropic, r#""container":null,"context_management":{"edits":[]}"#, ""),
        (Dialect::Chat, r#""web_search_options":{"search_context_size":"low"}"#, "web_search"),
        (Dialect::Chat, r#""search_parameters":{"mode":"on"}"#, "web_search"),
        (Dialect::Chat, r#""enable_search":true"#, "web_search"),
        (Dialect::Chat, r#""enable_search":false"#, ""),
        (Dialect::Chat, r#""plugins":[{"id":"web"}]"#, "plugins"),
        (Dialect::Responses, r#""input":[{"type":"tool_search_output","tools":[{"type":"mcp","server_url":"https://x"}]}]"#, "mcp"),
        (Dialect::Responses, r#""input":[{"type":"additional_tools","\u0074ools":[{"type":"web_search"}]}]"#, "web_search"),
        (Dialect::Responses, r#""input":[{"type":"additional_tools","tools":[{"type":"function","name":"f"}]}]"#, ""),
        (Dialect::Responses, r#""input":"tools""#, ""),
    ] {
        assert_eq!(runs(dialect, member), Ok(name.to_owned()), "{member}");
    }
    // An empty object asks for what is usual there.
    assert_eq!(runs(Dialect::Chat, r#""web_search_options":{}"#), Ok("web_search".into()));
    let by_name = |model: &str| super::of_model(model);
    for model in [
        "gpt-4o-search-preview-2025-03-11",
        "gpt-5-search-api",
        "openai/gpt-5:online",
        "sonar-pro",
        "perplexity/sonar",
        "groq/compound-mini",
    ] {
        assert_eq!(by_name(model), Some("web_search"), "{model}");
    }
    for model in ["gpt-5.5", "claude-sonnet-5", "search", "qwen3:4b", "o4-mini"] {
        assert_eq!(by_name(model), None, "{model}");
    }
}

#[test]
fn a_shape_that_can_be_read_in_two_ways_is_refused() {
    for (dialect, member, why) in [
        (Dialect::Anthropic, r#""tools":{"type":"web_fetch_20250910"}"#, "`tools` is not a list"),
        (Dialect::Anthropic, r#""tools":"web_search""#, "`tools` is not a list"),
        (Dialect::Anthropic, r#""tools":[["x"]]"#, "one of its `tools` is not an object"),
        (Dialect::Gemini, r#""tools":[[{"googleSearch":{}}]]"#, "one of its `tools` is not an object"),
        (Dialect::Anthropic, r#""tools":[{"type":["web_search_20250305"]}]"#, "the `type` of a tool is not text"),
        (Dialect::Responses, r#""tools":[{"type":7}]"#, "the `type` of a tool is not text"),
        (Dialect::Responses, r#""tools":[{"name":"x"}]"#, "one of its `tools` has no `type`"),
        (Dialect::Chat, r#""tools":[{"name":"x"}]"#, "one of its `tools` has no `type`"),
        (Dialect::Anthropic, r#""tools":[{"type":"custom","type":"web_fetch_20250910"}]"#, "`type` is given twice"),
        (Dialect::Anthropic, r#""tools":[{"type":"custom","\u0074ype":"web_fetch_20250910"}]"#, "`type` is given twice"),
        (Dialect::Anthropic, r#""tools":[],"tools":[{"type":"web_fetch_20250910"}]"#, "`tools` is given twice"),
        (Dialect::Anthropic, r#""Tools":[{"type":"web_fetch_20250910"}]"#, "`Tools` is in another case; write `tools`"),
        (Dialect::Chat, r#""toolſ":[{"type":"mcp"}]"#, "`toolſ` is in another case; write `tools`"),
        (Dialect::Responses, r#""tools":[{"type":"namespace","tools":[],"tools":[{"type":"mcp"}]}]"#, "`tools` is given twice"),
        (Dialect::Responses, r#""tools":[{"type":"namespace","tools":"x"}]"#, "`tools` is not a list"),
    ] {
        assert_eq!(runs(dialect, member), Err(why.to_owned()), "{member}");
    }
    let deep = format!("{}{{\"type\":\"mcp\"}}{}", r#"{"type":"namespace","tools":["#.repeat(9), "]}".repeat(9));
    assert_eq!(tool(Dialect::Responses, &deep), Err("its `tools` are nested too deep".into()));
    let many = (0..40).map(|n| format!(r#"{{"type":"t{n}"}}"#)).collect::<Vec<_>>().join(",");
    assert_eq!(tool(Dialect::Responses, &many), Err("its tools are of more than 32 kinds".into()));
}

#[test]
fn what_is_named_by_its_address_is_fetched_by_the_provider() {
    let anthropic = |block: &str| runs(Dialect::Anthropic, &format!(r#""messages":[{{"role":"user","content":[{block}]}}]"#));
    let responses = |item: &str| runs(Dialect::Responses, &format!(r#""input":[{item}]"#));
    let chat = |part: &str| runs(Dialect::Chat, &format!(r#""messages":[{{"role":"user","content":[{part}]}}]"#));
    let gemini = |part: &str| runs(Dialect::Gemini, &format!(r#""contents":[{{"parts":[{part}]}}]"#));
    let (fetch, none) = (Ok("web_fetch".to_owned()), Ok(String::new()));
    for (given, expected) in [
        (anthropic(r#"{"type":"image","source":{"type":"url","url":"https://x/?secret"}}"#), &fetch),
        (anthropic(r#"{"type":"document","source":{"\u0074ype":"\u0075rl","\u0075rl":"https://x/?secret"}}"#), &fetch),
        (anthropic(r#"{"type":"tool_result","content":[{"type":"image","source":{"type":"url","url":"http://x"}}]}"#), &fetch),
        (
            anthropic(r#"{"type":"document","source":{"type":"content","content":[{"type":"image","source":{"type":"url","url":"x"}}]}}"#),
            &fetch,
        ),
        (anthropic(r#"{"type":"image","source":{"type":"base64","data":"iVBORw0KGgo"}}"#), &none),
        (anthropic(r#"{"type":"document","source":{"type":"file","file_id":"f"}}"#), &none),
        // What a model or a tool says of an address is text.
        (anthropic(r#"{"type":"tool_use","input":{"source":{"type":"url","url":"https://x"},"image_url":"https://x"}}"#), &none),
        (anthropic(r#"{"type":"web_search_tool_result","content":[{"type":"web_search_result","url":"https://x"}]}"#), &none),
        (anthropic(r#"{"type":"search_result","source":"https://x","content":[{"type":"text","text":"https://x"}]}"#), &none),
        (responses(r#"{"role":"user","content":[{"type":"input_image","image_url":"https://x/?secret"}]}"#), &fetch),
        (responses(r#"{"role":"user","content":[{"type":"input_file","file_url":"https://x"}]}"#), &fetch),
        (responses(r#"{"type":"function_call_output","output":[{"type":"input_image","image_url":"HTTPS://x"}]}"#), &fetch),
        (responses(r#"{"type":"computer_call_output","output":{"type":"computer_screenshot","image_url":"https://x"}}"#), &fetch),
        (responses(r#"{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgo"}]}"#), &none),
        (responses(r#"{"role":"user","content":[{"type":"input_image","image_url":null,"file_id":"f"}]}"#), &none),
        (responses(r#"{"type":"function_call","arguments":"{\"image_url\":\"https://x\"}"}"#), &none),
        (chat(r#"{"type":"image_url","image_url":{"url":"https://x/?secret","detail":"low"}}"#), &fetch),
        (chat(r#"{"type":"image_url","image_url":"https://x"}"#), &fetch),
        (chat(r#"{"type":"video_url","video_url":{"url":"file:///etc/passwd"}}"#), &fetch),
        (chat(r#"{"type":"file","file":{"file_data":"https://x/y.pdf"}}"#), &fetch),
        (chat(r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo"}}"#), &none),
        (chat(r#"{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERi0"}}"#), &none),
        (gemini(r#"{"fileData":{"fileUri":"https://x/?secret"}}"#), &fetch),
        (gemini(r#"{"file_data":{"file_uri":"gs://bucket/x"}}"#), &fetch),
        (gemini(r#"{"functionResponse":{"name":"f","parts":[{"fileData":{"fileUri":"https://x"}}]}}"#), &fetch),
        (gemini(r#"{"fileData":{"fileUri":"https://generativelanguage.googleapis.com/v1beta/files/abc"}}"#), &none),
        (gemini(r#"{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo"}}"#), &none),
        (gemini(r#"{"functionCall":{"args":{"fileData":{"fileUri":"https://x"}}}}"#), &none),
        (runs(Dialect::Gemini, r#""system_instruction":{"parts":[{"fileData":{"fileUri":"https://x"}}]}"#), &fetch),
    ] {
        assert_eq!(&given, expected);
    }
    let counted = r#""generateContentRequest":{"model":"models/m","tools":[{"codeExecution":{}}],"contents":[{"parts":[{"fileData":{"fileUri":"x"}}]}]}"#;
    assert_eq!(runs(Dialect::Gemini, counted), Ok("code_execution+web_fetch".into()));
    let twice = anthropic(r#"{"type":"image","source":{"type":"base64","data":"x"},"source":{"type":"url","url":"https://x"}}"#);
    assert!(twice.unwrap_err().starts_with("`source` is given twice"));
    // Too deep for us to look through is not for a provider to look through.
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let hidden = format!(r#"{{"type":"tool_use","input":{deep}}},{{"type":"image","source":{{"type":"url","url":"https://x"}}}}"#);
    assert!(anthropic(&hidden).unwrap_err().starts_with("recursion limit exceeded"));
}

#[test]
fn searches_are_reserved_wherever_they_hide() {
    let searches = |dialect: Dialect, member: &str| read(dialect, member).unwrap().searches;
    assert_eq!(searches(Dialect::Anthropic, r#""tools":[{"type":"\u0077eb_search_20250305","max_uses":3}]"#), 3);
    assert_eq!(searches(Dialect::Responses, r#""tools":[{"type":"namespace","tools":[{"type":"web_search"}]}],"max_tool_calls":4"#), 4);
    assert_eq!(searches(Dialect::Gemini, r#""tools":[{"functionDeclarations":[]},{"googleSearch":{}}]"#), 10);
    assert_eq!(searches(Dialect::Chat, r#""web_search_options":{}"#), 1);
    assert_eq!(searches(Dialect::Anthropic, r#""tools":[{"name":"web_search","input_schema":{}}]"#), 0);
}
