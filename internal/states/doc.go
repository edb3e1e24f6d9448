// SPDX-License-Identifier: Apache-2.0

// Package states reads the state files of OpenTofu and Terraform, format
// versions 1 to 4, and compares two of them without showing a secret.
//
// [Parse] finds the addresses in a file: outputs, instances of resources, results of
// checks. [Diff] lists by address what was added, removed or changed. Only addresses
// whose bytes differ are read: attributes are flattened to paths such as "tags.Name" or
// "rule[0].port", and everything else that the tools act on has a name in brackets, such
// as "(status)" of a tainted instance or "(provider)". Members that this package does not
// know are compared; those that it leaves out are named. Values are compared as compact
// JSON, so that spaces and the order of members make no difference, but 1 and "1" differ.
//
// Until version 3, of Terraform 0.11, there is a list of modules, and attributes are flat;
// the addresses are those that the tools of today list. Outputs of nested modules, which
// the tools drop, are not read.
//
// # Masking
//
// A value is sensitive if the state of either side marks it, by
// sensitive_attributes or an output's flag, or if a name on its path suggests it:
// password, secret, token, private_key and the like. Values below a sensitive
// path are sensitive, too. If a step of a mark is not understood, everything below
// the part before it is masked, so errors hide too much rather than too little. A
// [Change] holds no sensitive value at all, so no output of it can show one. The names
// are only a heuristic: a secret under an innocent name that its provider does not mark
// is shown.
//
// # Limits
//
// A state is untrusted input. A value that nests more than 1,000 levels is refused, and
// so are paths of more than 256 MiB in total: each path repeats the names above it, and
// a long name above many values would take many times the size of the file. Reading a
// file takes time that grows linearly with its size.
//
// Lists are compared by position: an element inserted in front changes every one after
// it. A renamed resource appears as one that was removed and one that was added.
//
// # Alternatives considered
//
// The tools' own `show -json` would give the same view with the providers'
// schemas, but needs the providers installed and a process for each version. The
// packages of OpenTofu that read state are internal to it.
//
// # The states of a server
//
// [States] presents the states of a server to its users: which states exist, which are
// locked, when their versions were written, and the content of a version.
//
// # Which states exist
//
// Registries rarely list their repositories, and the catalog of artifacts is readable by
// callers that may not know the names of states. So the names are combined from three
// sources: entries in the queue repository, which a server writes once when it
// first stores a state ([States.Wrote]); settings; and the list of the registry,
// if it has one. The caller decides which of them a user may see.
//
// # What it costs
//
// The tag list of a repository is cached for five seconds, then renewed in the
// background. A version changes only when it is sealed with other keys, so its manifest
// is cached for ten minutes, and its content, by its digest, as long as there is room. A
// workspace costs the tag list, the manifest of its newest version and its blob, and one
// more request if it is locked; a history costs one manifest per row.
//
// Copies and verdicts of okara admin doctor are marks that no list shows, so each
// repository costs a tag list every ten minutes while they are requested: [States.Marked].
//
// # What is not displayed
//
// A state that OpenTofu encrypted, one that is sealed with keys which this server
// does not have, and one of more than 64 MiB or 100 levels: for those only the content
// of the manifest is shown. [VersionView].Why gives the reason.
//
// # In memory
//
// Values, including sensitive ones, are in the memory of the process for as long as their
// state is cached, as they are while the server serves a state.
//
// # Hints
//
// [Remedy] says how a user can resolve an error of statebackend, in okara's commands.
//
// The errors themselves name no command: a program that uses the library has
// none. Every text that is displayed goes through [Remedy]: the messages of commands,
// and the answers of statebackend/httpbackend and statebackend/s3facade, which
// the tools print unchanged.
//
// A hint follows the text of its error, also if that is one of several, on a separate
// line that begins with "hint: ".
package states
