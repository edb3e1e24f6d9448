// SPDX-License-Identifier: Apache-2.0

// Package states reads the state files of OpenTofu and Terraform, format versions 1 to 4,
// compares two of them without showing a secret, and presents the states of a server.
//
// [Parse] finds the addresses in a file: outputs, instances of resources, results of
// checks. [Diff] lists by address what was added, removed or changed: attributes are
// flattened to paths such as "rule[0].port", and everything else that the tools act on has
// a name in brackets, such as "(status)" of a tainted instance. Members that this package
// does not know are compared; those that it leaves out are named. Values are compared as
// compact JSON, so 1 and "1" differ. Files until version 3, of Terraform 0.11, have the
// addresses that the tools of today list, without the outputs of nested modules.
//
// # Masking
//
// A value is sensitive if the state of either side marks it, by sensitive_attributes or an
// output's flag, or if a name on its path suggests it: password, secret, token, private_key
// and the like. So is all below it, and all below a mark that is not understood. A [Change]
// holds no sensitive value, so no output of it can show one. The names are a heuristic: a
// secret under an innocent name that its provider does not mark is shown.
//
// # Limits
//
// A state is untrusted input: more than 1,000 levels are refused, and paths of more than
// 256 MiB in total, since each repeats the names above it. Lists are compared by position:
// an element inserted in front changes every one after it. A renamed resource appears as
// one that was removed and one that was added. Values, also sensitive ones, are in memory
// while their state is cached.
//
// # The states of a server
//
// [States] says which states exist, which are locked, when their versions were written, and
// what is in a version. Registries rarely list their repositories, and the catalog may be
// read by callers that may not know the names of states. So the names come from the queue
// repository, to which a server adds each state that it stores first ([States.Wrote]), from
// settings, and from the registry if it lists. The caller decides which a user may see.
//
// Tag lists are cached for five seconds, then renewed in the background; manifests for ten
// minutes, since other keys change them; content by digest. A workspace costs the tag list,
// the manifest of its newest version and its blob, and one more request if it is locked; a
// history one manifest per row; marks of copies and of okara admin doctor a tag list every
// ten minutes while they are requested ([States.Marked]).
//
// Of a state that OpenTofu encrypted, that is sealed with keys which this server does not
// have, or that has more than 64 MiB or 100 levels, only the manifest is shown:
// [VersionView].Why.
//
// # Hints
//
// The errors of statebackend name no command, since a program that uses the library has
// none. [Remedy] adds one, on a separate line that begins with "hint: ". The messages of
// commands and the answers of httpbackend and s3facade go through it.
//
// # Alternatives considered
//
// The tools' own `show -json` needs the providers installed and a process for each version.
// The packages of OpenTofu that read state are internal to it.
package states
