// SPDX-License-Identifier: Apache-2.0

// Package states reads the state files of OpenTofu and Terraform, format
// version 4, and compares two of them without showing a secret.
//
// [Parse] takes what a comparison needs from a file: the values of outputs and of
// the instances of resources. [Diff] lists by address what was added, removed or changed, and
// for what changed the attributes, flattened to paths such as "tags.Name" or
// "rule[0].port". Values are compared as compact JSON, so that spaces and the
// order of members make no difference, and 1 and "1" do.
//
// # Masking
//
// A value is sensitive if the state of either side marks it, by
// sensitive_attributes or an output's flag, or if a name on its path says so:
// password, secret, token, private_key and the like. What lies below a sensitive
// path is sensitive, too. A step of a mark that is not understood masks everything
// below the part that is: rather too much than too little. A [Change] holds no
// sensitive value at all, so that no way of printing it can show one. The names
// are a net and no proof; a secret under an innocent name that its provider does
// not mark is shown.
//
// # Limits
//
// A state is the word of whoever may write it. A value that nests more than 1,000
// levels is refused, and so are paths of more than 256 MiB together: each repeats
// the names above it, and a long name above many values would be many times the
// file. A file is read in time that grows with its size.
//
// Lists are compared by position: an element put in front changes every one after
// it. A renamed resource is one that was removed and one that was added.
//
// # Alternatives considered
//
// The tools' own `show -json` would give the same view with the providers'
// schemas, but needs the providers installed and a process for each version. The
// packages of OpenTofu that read state are internal to it.
//
// # The states of a server
//
// [States] is the states of a server as people look at them: which there are, who
// holds a lock, what was written when, and what is in a version.
//
// # Which states there are
//
// Registries rarely list their repositories, and the catalog of artifacts is read
// by many who may not know the names of states. So the names come from three places,
// added up: entries in the queue repository, which a server writes once when it
// first stores a state ([States.Wrote]); settings; and the list of the registry,
// where it has one. Who may see which of them is for the caller to decide.
//
// # What it costs
//
// The tag list of a repository is kept for five seconds, then renewed behind the back of
// those who ask. A version never changes but for the keys it is sealed with, so what
// its manifest says is kept for ten minutes, and what is in it, by its digest, as long
// as there is room. A workspace costs the tag list, the manifest of its newest version
// and its blob, and one more if somebody holds its lock; a history one manifest a row.
//
// Copies and verdicts of okara admin doctor are marks that no list names, so each repository
// costs a tag list once in ten minutes while somebody asks for them: [States.Marked].
//
// # What is not looked into
//
// A state that OpenTofu encrypted, one that is sealed with keys which this server
// does not have, and one of more than 64 MiB or 100 levels: of those only what the
// manifest says is shown. [VersionView].Why says which it is.
//
// # In memory
//
// Values are in the memory of the process for as long as their state is kept there,
// sensitive ones too, as they are while it serves a state.
//
// # Hints
//
// [Remedy] says what a person can do about an error of statebackend, in
// okara's commands.
//
// The errors themselves name no command: a program that uses the library has
// none. What reaches a screen goes through [Remedy]: the messages of commands,
// and the answers of statebackend/httpbackend and statebackend/s3facade, which
// the tools print as they come.
//
// A hint stands behind the text of the error that it is about, also where that
// is one of several, on a line of its own that begins with "hint: ".
package states
