//! The chat template of a model file (Jinja), run with a bound on its work.

use minijinja::{Environment, ErrorKind, Value, context};

use super::Message;

/// Where a chat template came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateSource {
    /// `tokenizer.chat_template` of the file.
    File,
    /// The file has none, but has the markers of ChatML.
    ChatMl,
    /// The file has none: `User:` and `Assistant:` lines.
    Plain,
}

const CHATML: &str = "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}\
                      {% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
const PLAIN: &str = "{% for message in messages %}{{ message.role | capitalize + ': ' + message.content + '\n' }}{% endfor %}\
                     {% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}";

/// Instructions that a template may use: some fifty times what a long conversation needs.
const FUEL: u64 = 2_000_000;
/// Bytes of template source accepted; the longest in use are about 20 KB.
const MAX_SOURCE: usize = 64 * 1024;
/// Stack for the parser, which goes one call deeper with each link of a chain (`a-b-c…`): a source of nothing but links fits.
/// Memory is taken only where it is used.
const PARSER_STACK: usize = 128 << 20;

/// A template that cannot be used, or that refuses a conversation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error("the model's chat template has {0} bytes, over the bound of {MAX_SOURCE}")]
    TooLong(usize),
    #[error("the model's chat template does not parse: {0}")]
    Syntax(String),
    /// The template's own `raise_exception`, a type error, or the bound on work.
    #[error("the model's chat template refuses this conversation: {0}")]
    Render(String),
}

/// An environment with the template in it, under the name `chat`.
fn parse(text: &str) -> Result<Environment<'static>, TemplateError> {
    let mut environment = Environment::new();
    // As transformers sets Jinja up.
    let syntax = minijinja::syntax::SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.map_err(|error| TemplateError::Syntax(error.to_string()))?);
    environment.set_fuel(Some(FUEL));
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_function("raise_exception", |message: String| -> Result<String, minijinja::Error> {
        Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
    });
    environment.add_template_owned("chat", text.to_owned()).map_err(|error| TemplateError::Syntax(format!("{error:#}")))?;
    Ok(environment)
}

/// A parsed chat template.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    source: TemplateSource,
    bos: String,
    eos: String,
}

impl ChatTemplate {
    /// `source` is the file's template, if it has one; `chatml` says whether its vocabulary has ChatML's markers.
    pub fn new(source: Option<&str>, chatml: bool, bos: &str, eos: &str) -> Result<ChatTemplate, TemplateError> {
        let (source, text) = match source {
            Some(text) => (TemplateSource::File, text),
            None if chatml => (TemplateSource::ChatMl, CHATML),
            None => (TemplateSource::Plain, PLAIN),
        };
        if text.len() > MAX_SOURCE {
            return Err(TemplateError::TooLong(text.len()));
        }
        let parse = || parse(text);
        let environment = std::thread::scope(|scope| {
            let parser = std::thread::Builder::new().name("template".into()).stack_size(PARSER_STACK).spawn_scoped(scope, parse);
            let failed = |why: String| TemplateError::Syntax(why);
            let parser = parser.map_err(|error| failed(format!("no thread to parse it in ({error})")))?;
            parser.join().unwrap_or_else(|_| Err(failed("the parser failed".into())))
        })?;
        Ok(ChatTemplate { environment, source, bos: bos.to_owned(), eos: eos.to_owned() })
    }

    pub fn source(&self) -> TemplateSource {
        self.source
    }

    /// The conversation as text, ending where the assistant is to speak.
    pub fn render(&self, messages: &[Message]) -> Result<String, TemplateError> {
        let template = self.environment.get_template("chat").map_err(|error| TemplateError::Syntax(error.to_string()))?;
        let turns: Vec<Value> =
            messages.iter().map(|turn| context! { role => turn.role.as_str(), content => turn.content.as_str() }).collect();
        template
            .render(context! { messages => turns, add_generation_prompt => true, bos_token => self.bos.as_str(), eos_token => self.eos.as_str() })
            .map_err(|error| TemplateError::Render(error.detail().map_or_else(|| error.to_string(), str::to_owned)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Role;
    use super::*;

    fn hello() -> Vec<Message> {
        vec![Message::new(Role::System, "Be kind."), Message::new(Role::User, " hello ")]
    }

    #[test]
    fn the_fallbacks_render() {
        let chatml = ChatTemplate::new(None, true, "", "").unwrap();
        assert_eq!(
            chatml.render(&hello()).unwrap(),
            "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\n hello <|im_end|>\n<|im_start|>assistant\n"
        );
        let plain = ChatTemplate::new(None, false, "", "").unwrap();
        assert_eq!(plain.render(&hello()).unwrap(), "System: Be kind.\nUser:  hello \nAssistant:");
    }

    #[test]
    fn a_template_may_use_python_methods_and_refuse() {
        let strip = ChatTemplate::new(Some("{{ messages[1].content.strip() }}|{{ bos_token }}"), false, "<s>", "").unwrap();
        assert_eq!(strip.render(&hello()).unwrap(), "hello|<s>");
        let refuse = ChatTemplate::new(Some("{{ raise_exception('no system role') }}"), false, "", "").unwrap();
        assert_eq!(refuse.render(&hello()), Err(TemplateError::Render("no system role".into())));
    }

    #[test]
    fn broken_and_endless_templates_are_errors() {
        // Chains longer than any in use, which a parser follows one call deeper with each link.
        for (link, count) in [("-", 60_000), ("not ", 16_000), ("1+", 10_000), ("1~", 10_000), ("1 if x else ", 2_000)] {
            let _ = ChatTemplate::new(Some(&format!("{{{{ {}1 }}}}", link.repeat(count))), false, "", "");
        }
        for link in [".b", "[0]", "|abs", "()"] {
            let chain = format!("{{{{ a{} }}}}", link.repeat(10_000));
            if let Ok(template) = ChatTemplate::new(Some(&chain), false, "", "") {
                assert!(template.render(&[]).is_err(), "{link}");
            }
        }
        assert!(matches!(ChatTemplate::new(Some("{% for"), false, "", ""), Err(TemplateError::Syntax(_))));
        let endless = "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}";
        let endless = ChatTemplate::new(Some(endless), false, "", "").unwrap();
        assert!(matches!(endless.render(&hello()), Err(TemplateError::Render(_))));
        let long = " ".repeat(MAX_SOURCE + 1);
        assert!(matches!(ChatTemplate::new(Some(&long), false, "", ""), Err(TemplateError::TooLong(_))));
    }
}
