// Suggested names.

const MOODS = ["Amber", "Brisk", "Calm", "Clever", "Gentle", "Keen", "Lucky", "Merry", "Mild", "Quiet", "Sunny", "Swift"];
const ANIMALS = ["Badger", "Crane", "Finch", "Fox", "Hare", "Heron", "Lynx", "Marten", "Otter", "Owl", "Seal", "Wren"];

const any = (list) => list[Math.floor(Math.random() * list.length)];

export const suggestName = () => `${any(MOODS)} ${any(ANIMALS)}`;
