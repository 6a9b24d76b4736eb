"""What can go wrong on the provider's side; one class per reason."""


class AgentError(RuntimeError):
    """The root of this package's errors; its text is one line that says what to do."""


class NotLoopbackError(AgentError):
    """An address that is not a literal loopback address and a port: these servers know no authentication."""


class ListenError(AgentError):
    """The address cannot be listened on."""


class LogFileError(AgentError):
    """A log file cannot be opened for appending."""


class UnknownPolicyError(AgentError):
    """A policy name that is not in the table."""


class MissingPackageError(AgentError):
    """An optional package of the local model is not installed."""


class ModelFileError(AgentError):
    """The package of the weights is installed but does not hold exactly one GGUF file."""


class ModelServerError(AgentError):
    """The native model server did not start."""


class BadChatRequestError(AgentError):
    """A request body that is not a unary chat-completions request."""


class ChoiceNotHonouredError(AgentError):
    """The model server finished normally with an answer that is none of the choices it was constrained to."""
