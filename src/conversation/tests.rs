use super::*;
use crate::random::SplitMix64;

fn tree() -> Conversation {
    let mut tree = Conversation::kept(1);
    tree.say(Role::User, "hello").unwrap();
    tree.add(Some(0), Role::Assistant, "", None, true).unwrap();
    tree.append(1, "Hi ").unwrap();
    tree.append(1, "there").unwrap();
    tree.end(1, None, None);
    tree
}

fn said(tree: &Conversation) -> Vec<&str> {
    tree.path().into_iter().map(|id| tree.nodes()[id].text.as_str()).collect()
}

#[test]
fn an_answer_asked_for_again_stands_beside_the_first() {
    let mut tree = tree();
    let again = tree.add(Some(0), Role::Assistant, "Good day", None, false).unwrap();
    assert_eq!((said(&tree), tree.place(again), tree.place(1)), (vec!["hello", "Good day"], (2, 2), (1, 2)));
    let more = tree.say(Role::User, "more").unwrap();
    assert!(tree.switch(again, 1), "round and round");
    assert_eq!(said(&tree), ["hello", "Hi there"]);
    assert!(tree.switch(1, -1));
    assert_eq!((said(&tree), tree.leaf()), (vec!["hello", "Good day", "more"], Some(more)), "back to where it was left");
    assert!(!tree.switch(more, 1), "it is alone");
    let other = tree.add(None, Role::User, "another beginning", None, false).unwrap();
    assert_eq!((said(&tree), tree.place(other)), (vec!["another beginning"], (2, 2)));
}

#[test]
fn what_was_deleted_is_on_no_path_and_numbers_stay() {
    let mut tree = tree();
    let again = tree.add(Some(0), Role::Assistant, "Good day", None, false).unwrap();
    let more = tree.say(Role::User, "more").unwrap();
    let bytes = tree.bytes();
    tree.remove(again);
    assert_eq!(said(&tree), ["hello", "Hi there"]);
    assert_eq!((tree.node(again), tree.node(more), tree.bytes()), (None, None, bytes - "Good daymore".len()));
    assert_eq!(tree.say(Role::User, "on").unwrap(), more + 1);
    tree.remove(0);
    assert!(tree.is_empty() && tree.path().is_empty() && tree.leaf().is_none());
    assert_eq!(tree.bytes(), 0);
}

#[test]
fn a_model_is_told_the_path_and_no_empty_answers() {
    let mut tree = tree();
    tree.say(Role::User, "and?").unwrap();
    let failed = tree.add(tree.leaf(), Role::Assistant, "", None, true).unwrap();
    tree.end(failed, Some("stopped".into()), None);
    tree.say(Role::User, "well?").unwrap();
    let told: Vec<(Role, String)> =
        tree.messages(Some("Be kind."), tree.leaf()).into_iter().map(|message| (message.role, message.content)).collect();
    let expected = [
        (Role::System, "Be kind.".to_owned()),
        (Role::User, "hello".into()),
        (Role::Assistant, "Hi there".into()),
        (Role::User, "and?\n\nwell?".into()),
    ];
    assert_eq!(told, expected);
    assert_eq!(tree.messages(Some(""), Some(0)).len(), 1);
    assert_eq!(tree.messages(None, None), []);
}

#[test]
fn text_that_streams_is_one_change_until_it_is_taken() {
    let mut tree = tree();
    let changes = tree.take_changes();
    assert!(changes.contains(&Change::Appended { id: 1, text: "Hi there".into() }), "{changes:?}");
    assert_eq!(tree.take_changes(), []);
    tree.reopen(1, None);
    tree.append(1, "!").unwrap();
    assert_eq!(tree.take_changes(), [Change::Reopened { id: 1, maker: None }, Change::Appended { id: 1, text: "!".into() }]);
    assert!(tree.node(1).unwrap().open);
}

#[test]
fn bounds_are_said_and_lose_nothing() {
    let mut tree = Conversation::default();
    tree.say(Role::User, &"x".repeat(MAX_BYTES - 3)).unwrap();
    assert_eq!(tree.append(0, "éé"), Err(Full::Bytes));
    assert_eq!(tree.bytes(), MAX_BYTES - 1, "half a character is none");
    assert_eq!(tree.say(Role::User, "no"), Err(Full::Bytes));
    assert_eq!(tree.nodes().len(), 1);
    let mut tree = Conversation::default();
    (0..MAX_NODES).for_each(|_| assert!(tree.say(Role::User, "").is_ok()));
    assert_eq!(tree.say(Role::User, "no").unwrap_err().to_string(), Full::Nodes.to_string());
}

#[test]
fn what_is_no_tree_is_refused() {
    let node = |parent| Node { parent, text: "x".into(), open: true, ..Node::nothing() };
    let restored = Conversation::restore(1, vec![node(None), node(Some(0))], Some(1), "cut off").unwrap();
    assert_eq!((restored.path(), restored.node(1).unwrap().note.as_deref()), (vec![0, 1], Some("cut off")));
    for (nodes, leaf) in [
        (vec![node(Some(0))], None),
        (vec![node(None), node(Some(7))], None),
        (vec![node(None)], Some(1)),
        (vec![Node { removed: true, ..node(None) }, node(Some(0))], None),
        (vec![Node { text: "x".repeat(MAX_BYTES + 1), ..node(None) }], None),
    ] {
        assert!(Conversation::restore(1, nodes, leaf, "").is_err());
    }
    let mut empty = Conversation::default();
    for change in [Change::Leaf(Some(0)), Change::Removed(3), Change::Appended { id: 0, text: "x".into() }] {
        assert!(empty.apply(change).is_err());
    }
}

/// The same in the simplest words: a list of (number, parent, text), from which everything is worked out anew.
#[derive(Clone, Debug, Default)]
struct Oracle {
    there: Vec<(NodeId, Option<NodeId>, String)>,
    leaf: Option<NodeId>,
    next: NodeId,
}

impl Oracle {
    fn parent(&self, id: NodeId) -> Option<NodeId> {
        self.there.iter().find(|(other, ..)| *other == id).and_then(|(_, parent, _)| *parent)
    }

    fn children(&self, parent: Option<NodeId>) -> Vec<NodeId> {
        self.there.iter().filter(|(_, other, _)| *other == parent).map(|(id, ..)| *id).collect()
    }

    fn below(&self, id: NodeId) -> Vec<NodeId> {
        let deeper = self.children(Some(id)).into_iter().flat_map(|child| self.below(child));
        std::iter::once(id).chain(deeper).collect()
    }

    fn path(&self) -> Vec<NodeId> {
        let mut path: Vec<NodeId> = std::iter::successors(self.leaf, |id| self.parent(*id)).collect();
        path.reverse();
        path
    }

    fn add(&mut self, parent: Option<NodeId>, text: &str) {
        self.there.push((self.next, parent, text.to_owned()));
        self.leaf = Some(self.next);
        self.next += 1;
    }

    fn switch(&mut self, id: NodeId, by: isize) {
        let siblings = self.children(self.parent(id));
        let at = siblings.iter().position(|other| *other == id).unwrap() as isize;
        let to = siblings[(at + by).rem_euclid(siblings.len() as isize) as usize];
        if siblings.len() > 1 {
            self.leaf = self.below(to).into_iter().max();
        }
    }

    fn remove(&mut self, id: NodeId) {
        let gone = self.below(id);
        if self.path().contains(&id) {
            let siblings = self.children(self.parent(id));
            let before = siblings.iter().rev().find(|other| **other < id).or(siblings.iter().find(|other| **other > id));
            self.leaf = before.map_or(self.parent(id), |beside| self.below(*beside).into_iter().max());
        }
        self.there.retain(|(other, ..)| !gone.contains(other));
    }
}

fn same(tree: &Conversation, oracle: &Oracle) {
    let there: Vec<(NodeId, Option<NodeId>, String)> =
        (0..tree.nodes().len()).filter_map(|id| tree.node(id).map(|node| (id, node.parent, node.text.clone()))).collect();
    assert_eq!(there, oracle.there);
    assert_eq!((tree.leaf(), tree.path()), (oracle.leaf, oracle.path()));
    assert_eq!(tree.bytes(), oracle.there.iter().map(|(_, _, text)| text.len()).sum::<usize>());
    for (id, parent, _) in &oracle.there {
        let siblings = oracle.children(*parent);
        assert_eq!(tree.siblings(*id), siblings);
        assert_eq!(tree.place(*id).1, siblings.len());
        assert_eq!(tree.places(&[*id]), [tree.place(*id)]);
        let branch = tree.branch_off(1, *id);
        let told = |tree: &Conversation, last| tree.messages(None, Some(last));
        assert_eq!(told(&branch, branch.leaf().unwrap()), told(tree, *id));
        assert_eq!(Some(tree.newest_below(*id)), oracle.below(*id).into_iter().max());
    }
}

/// Random trees are what the oracle says, and what their changes make of an empty one.
#[test]
fn a_tree_is_what_its_changes_say() {
    for seed in 0..60 {
        let mut dice = SplitMix64(seed);
        let (mut tree, mut oracle, mut kept) = (Conversation::kept(seed), Oracle::default(), Conversation::default());
        for act in 0..80 {
            let any = oracle.there.get(dice.range(0, oracle.there.len().max(1) as u64 - 1) as usize).map(|(id, ..)| *id);
            let text = format!("text {act}");
            match (dice.range(0, 9), any) {
                (0..=2, _) | (_, None) => {
                    tree.say(Role::User, &text).unwrap();
                    oracle.add(oracle.leaf, &text);
                }
                (3 | 4, Some(id)) => {
                    tree.add(Some(id), Role::Assistant, &text, None, true).unwrap();
                    oracle.add(Some(id), &text);
                }
                (5, Some(id)) => {
                    tree.append(id, &text).unwrap();
                    oracle.there.iter_mut().find(|(other, ..)| *other == id).unwrap().2.push_str(&text);
                }
                (6, Some(id)) => {
                    let by = dice.range(0, 4) as isize - 2;
                    tree.switch(id, by);
                    oracle.switch(id, by);
                }
                (7, Some(id)) => {
                    tree.go(Some(id));
                    oracle.leaf = Some(id);
                }
                (8, Some(id)) => tree.end(id, Some("note".into()), None),
                (_, Some(id)) => {
                    tree.remove(id);
                    oracle.remove(id);
                }
            }
            same(&tree, &oracle);
            if dice.range(0, 3) == 0 {
                tree.take_changes().into_iter().for_each(|change| kept.apply(change).unwrap());
                assert_eq!(kept, tree, "seed {seed}");
            }
        }
        let restored = Conversation::restore(7, tree.nodes().to_vec(), tree.leaf(), "cut off").unwrap();
        assert_eq!((restored.path(), restored.bytes()), (tree.path(), tree.bytes()));
    }
}
