// SPDX-License-Identifier: Apache-2.0

// Package statefile reads the state files of OpenTofu and Terraform, format
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
package statefile
